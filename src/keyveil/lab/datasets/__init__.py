"""Populations to experiment on: named recipes (``load``), files that are known by name (``real``), and their parts."""

from __future__ import annotations

from keyveil.lab.datasets.crowds import around as around
from keyveil.lab.datasets.crowds import everyone as everyone
from keyveil.lab.datasets.crowds import groups as groups
from keyveil.lab.datasets.crowds import independent as independent
from keyveil.lab.datasets.crowds import one_key as one_key
from keyveil.lab.datasets.crowds import one_of_each_group as one_of_each_group
from keyveil.lab.datasets.dataset import Dataset as Dataset
from keyveil.lab.datasets.named import named as named
from keyveil.lab.datasets.real import KNOWN as KNOWN
from keyveil.lab.datasets.real import real as real
from keyveil.lab.datasets.recipe import Recipe as Recipe
from keyveil.lab.datasets.recipes import load as load
from keyveil.lab.datasets.recipes import names as names
from keyveil.lab.datasets.recipes import recipe as recipe
from keyveil.lab.datasets.stream import Stream as Stream
