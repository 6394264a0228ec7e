"""A counter that begins at the length of the prompt, and a function beside it."""


class Counter:
    def reset(self, prompt: list, word: str) -> str:
        self.count = self.begun = len(prompt[-1]["content"]) + len(word)
        return f" The counter is at {self.count}."

    def add(self, number: int, reason: str = "") -> str:
        """
        Adds to the counter.

        Args:
            number: How much is added.
            reason: Why.
        """
        self.count += number
        return f"The counter is at {self.count}."

    def get_reward(self) -> float:
        return float(self.count != self.begun)


def double(number: int) -> int:
    """
    Doubles a number.

    Args:
        number: The number.
    """
    return 2 * number
