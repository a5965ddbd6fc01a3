"""Malicious clients: how far they can move estimates (influence), signs of them (detection), and what is left."""
