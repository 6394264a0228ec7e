"""Rendered files onto the disk: compared, merged with the user's edits, written whole or not at all, and remembered."""
