"""Artifacts to text: literals, calls, configuration files, templates, and the decisions behind each line."""
