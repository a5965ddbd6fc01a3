"""What the experiments of Li et al. 2022 share: their people, and the mechanisms as they ran them."""

from __future__ import annotations

from keyveil.lab.experiments.shape import Axis, People, Series

ECOMMERCE = People(
    "sparse",
    label="E-commerce",
    n=23_486,
    options=(("keys", 1206), ("pairs", 1.0)),
    file="womens_clothing_reviews",
    stands_for="the reviews of women's clothing",
    cap=3,
)
CLOTHING = People(
    "sparse",
    label="Clothing",
    n=105_508,
    options=(("keys", 600), ("pairs", 1.825)),
    file="renttherunway",
    stands_for="RentTheRunway: as many people and pairs, 600 of its 5,850 keys",
    cap=5,
)
MOVIES = People(
    "sparse",
    label="Movies",
    n=138_493,
    options=(("keys", 400), ("pairs", 25.0)),
    file="movielens",
    stands_for="MovieLens: as many people, 400 of 26,744 keys, 25 of 144 pairs a person, padding 40 and not 100",
    cap=40,
    cap_of_file=100,
)
PEOPLE = (ECOMMERCE, CLOTHING, MOVIES)
BUDGETS = Axis("epsilon", (0.1, 0.5, 1, 2, 3, 4, 5, 6), "privacy budget ε", quick=(0.1, 1, 2, 5))
CELLS = 64
NOTE = (
    f"Amazon is left out: its 249,274 keys do not fit. KV-SW has {CELLS} cells of values where the paper has 1024. "
    "The sum of frequencies is not forced to 1, which would be wrong with several pairs a person (erratum D4)."
)

OURS = Series("KV-SW, consistent", f"kv-sw:max_pairs={{cap}},cells={CELLS},overflow=off", decoder="norm-sub")
KVSW = Series("KV-SW", f"kv-sw:max_pairs={{cap}},cells={CELLS},overflow=off")
PCKV_UE = Series("PCKV-UE", "pckv-ue:max_pairs={cap},overflow=off")
PCKV_GRR = Series("PCKV-GRR", "pckv-grr:max_pairs={cap},overflow=off")
KVUE = Series("KVUE", "kvue", exact=True)
STAR = Series("PrivKVM*", "privkvm-star")
CONSISTENCY = (
    "What wins is consistency, which any mechanism can have: PCKV-UE gains from it as well, see the last claim. "
    "PrivKVM* (as reconstructed here) says 0 of keys that it does not find, which errs little where most keys are "
    "rare; and where people hold many pairs, padding costs more than KVUE loses, which has none."
)
COMPOSITION = (
    "PCKV spends less than it asks for (erratum E8, and Fig. 2): at the same exact ε it asks for more, and gains."
)
BLIND = (
    "Most keys have too few reports for a distribution of their values, so EM is left with noise. PrivKVM* answers "
    "with what is common to all keys, a guess that errs less."
)
RIVALS = (PCKV_UE, PCKV_GRR, KVUE, STAR)
OTHERS = tuple(one.label for one in RIVALS)
CONSISTENT = Series("PCKV-UE, consistent", PCKV_UE.who, decoder="norm-sub")
