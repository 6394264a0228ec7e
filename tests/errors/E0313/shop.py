class Shop:
    def reset(self, price):
        self.price = price

    def buy(self, amount: int) -> str:
        """Buys pieces."""
        return f"{amount * self.price} euros."


class Closed(Shop):
    pass


def add(one: int, other: int) -> int:
    """
    Adds two numbers.

    Args:
        one: The first.
        other: The second.
    """
    return one + other


async def wait(seconds):
    return "done"
