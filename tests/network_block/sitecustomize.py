"""Python imports this at the start of every process that has this folder on its path."""

from __future__ import annotations

import os

import network_block

if os.environ.get(network_block.LOG):
    network_block.install()
