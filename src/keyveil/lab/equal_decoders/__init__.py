"""The best of this project, chosen in advance by a rule, against the best published, with the same decoder for both.

``rule`` chooses, ``cells`` measures, ``page`` writes docs/equal-decoders.md.
"""
