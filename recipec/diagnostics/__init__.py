"""What the compiler says about a recipe, and how it is printed."""
