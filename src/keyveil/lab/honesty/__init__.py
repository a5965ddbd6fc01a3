"""Do intervals cover, or say that they do not? Measured on populations unlike those of the papers.

``cells`` draws people, asks them and counts which intervals hold the truth; ``rule`` says what must hold of the counts;
``page`` writes docs/honesty.md from them.
"""
