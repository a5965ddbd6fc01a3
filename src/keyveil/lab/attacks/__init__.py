"""The attack bench: crafted reports against estimates, driven by the one driver of simulations (``lab.rounds``)."""
