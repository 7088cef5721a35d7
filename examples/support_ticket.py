"""One support ticket, three questions: route it, or leave it to a person."""

from __future__ import annotations

import os

from typesafe_sdk import Choice, Noul, Score, TypeSafeClient

BASE_URL = os.environ.get("REFLEX_URL", "http://127.0.0.1:8000")
API_KEY = os.environ.get("REFLEX_API_KEY", "none")

TICKET = (
    "Hi, I was charged twice for March (order 4471) and support promised a refund two weeks ago. "
    "Nothing has arrived. If this is not fixed by Friday I will cancel."
)
QUESTIONS: dict[str, Noul | Choice | Score] = {
    "refund": Noul(instructions="Is the customer asking for money back?"),
    "team": Choice(
        instructions="Which team should handle this ticket?",
        criteria={
            "billing": "Payments, invoices, refunds",
            "technical": "Bugs, outages, integrations",
            "sales": "Plans, prices, upgrades",
            "other": None,
        },
    ),
    "urgency": Score(
        instructions="How soon does this need an answer?",
        criteria=["Whenever there is time", "This week", "Today", "At once"],
    ),
}
SURE = 0.6
"""Confidence from which a ticket is routed without a person. Choose it on tickets of your own."""


def main() -> None:
    with TypeSafeClient(base_url=BASE_URL, api_key=API_KEY) as client:
        response = client.system_one(state=TICKET, questions=QUESTIONS)
    refund = response.nouls["refund"].noul
    team = response.choices["team"]
    urgency = response.scores["urgency"]
    print(f"asks for a refund: {refund:.1%}")
    for name, p in sorted(team.probabilities.items(), key=lambda item: -item[1]):
        print(f"  {name:10} {p:6.1%}")
    print(f"urgency: {urgency.score:.2f} on 0 … {len(urgency.legend) - 1}")
    if team.confidence >= SURE:
        print(f"routed to {team.choice} (confidence {team.confidence:.2f})")
    else:
        print(
            f"left to a person: {team.choice} at confidence {team.confidence:.2f} is not sure enough"
        )
    print(f"{response.usage.input_tokens} tokens read, request {response.request_id}")


if __name__ == "__main__":
    main()
