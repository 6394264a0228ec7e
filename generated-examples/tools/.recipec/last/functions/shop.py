"""A shop that a model orders from: it looks up a price, and buys if the price is within the customer's limit."""

PRICES = {"lamp": 14, "chair": 35, "clock": 22, "kettle": 28, "mirror": 41, "basket": 9, "blanket": 31, "vase": 17}


class Shop:
    """One customer's order: `reset` begins it, the tools act on it, `get_reward` judges what was bought."""

    def reset(self, item: str, amount: int, limit: int) -> str:
        """What the customer wants is in the row; the model is told what the shop sells."""
        self.wanted = (item, amount if PRICES[item] <= limit else 0)
        self.looked = False
        self.bought: dict[str, int] = {}
        return f" The shop sells {', '.join(PRICES)}."

    def price(self, item: str) -> str:
        """
        Looks up what one piece of an item costs.

        Args:
            item: The name of the item in the singular, such as lamp.
        """
        if item not in PRICES:
            raise ValueError(f"The shop has no {item}.")
        self.looked = True
        return f"One {item} costs {PRICES[item]} euros."

    def buy(self, item: str, amount: int) -> str:
        """
        Orders pieces of an item. An order cannot be taken back.

        Args:
            item: The name of the item in the singular, such as lamp.
            amount: How many pieces, 1 or more.
        """
        if item not in PRICES or amount < 1:
            raise ValueError(f"The shop cannot sell {amount} of {item}.")
        self.bought[item] = self.bought.get(item, 0) + amount
        return f"Ordered: {amount} x {item}, {amount * PRICES[item]} euros."

    def get_reward(self) -> float:
        """1 for the right order, 0.2 for a price that was looked up, 0 else."""
        item, amount = self.wanted
        right = self.looked and self.bought == ({item: amount} if amount else {})
        return 1.0 if right else 0.2 * self.looked
