"""One device, nothing to distribute."""

from recipec.sharders.sharder import Sharder

SINGLE = Sharder("single", "one device", fact="none")
