"""What this machine does, measured: `recipec probe`. One short file for each thing that is measured.

`python -m recipec.probe` runs torch and prints JSON; `document.py`, which writes that as the TOML file of a recipe's
`hardware.measured`, runs nothing. What the figures mean stands in recipec/catalog/measured.py.
"""
