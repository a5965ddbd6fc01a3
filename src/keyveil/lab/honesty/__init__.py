"""Do intervals cover, or say that they do not? Measured on populations with what real people bring.

``cells`` draws people, asks them and counts which intervals hold the truth; ``rule`` says what must hold of the counts;
``page`` writes docs/honesty.md from them.
"""
