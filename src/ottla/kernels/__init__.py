"""Pure functions on arrays, compiled by Numba: they return a status and never raise."""
