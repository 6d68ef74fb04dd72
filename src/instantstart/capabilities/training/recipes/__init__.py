"""Recipes: what a training container can be told to run, and the forms that people keep."""
