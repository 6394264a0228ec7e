"""Search: lay a stage out in every way that the rules and the devices allow, predict each, and choose."""
