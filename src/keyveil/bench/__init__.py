"""Speed as ratios: Keyveil against what one would write without it, against peers, and against the machine."""
