"""Speed as ratios: what Keyveil does, against what one would write without it, on one core of this machine."""
