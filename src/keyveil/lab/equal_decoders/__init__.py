"""The best of this project, chosen in advance by a rule, against the best published, with the same decoder for both.

``rule`` says who takes part and ``cells`` measures; ``keyveil.planning.studies.equal_decoders`` chooses by plans, and
writes docs/equal-decoders.md.
"""
