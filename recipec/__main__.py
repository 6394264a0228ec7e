"""`python -m recipec` is `recipec`."""

from recipec.cli import main

if __name__ == "__main__":
    main()
