"""How many requests a replica can hold in each mode: SGLang 0.5.23's own slot and memory formulas, as pure functions.

An estimate, made before a replica runs. What an engine reports of itself (`/v1/loads`) goes before it.
"""
