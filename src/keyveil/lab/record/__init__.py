"""The benchmark of record: mechanism × data × ε × people × decoder, one table in which all were measured alike.

``plan`` names the cells, ``cells`` measures one, ``table`` ranks finished ones, ``files`` and ``page`` write them down.
``keyveil compare --record FOLDER`` runs it (docs/record.md).
"""
