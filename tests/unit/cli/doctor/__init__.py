"""Tests of `penstock doctor`."""
