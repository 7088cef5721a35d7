"""The support ticket through the `openai` client: `client.decisions.create`, only `base_url` changed."""

from __future__ import annotations

import os

from openai import OpenAI

BASE_URL = os.environ.get("REFLEX_URL", "http://127.0.0.1:8000")
API_KEY = os.environ.get("REFLEX_API_KEY", "none")

TICKET = (
    "Hi, I was charged twice for March (order 4471) and support promised a refund two weeks ago. "
    "Nothing has arrived. If this is not fixed by Friday I will cancel."
)


def main() -> None:
    client = OpenAI(base_url=f"{BASE_URL}/v1", api_key=API_KEY)
    decision = client.decisions.create(
        model="gpt-6-luna",  # any name is taken; the answer says which model it was
        input=TICKET,
        questions=[
            {
                "type": "predicate",
                "name": "refund",
                "instructions": "Is the customer asking for money back?",
            },
            {
                "type": "choice",
                "name": "team",
                "instructions": "Which team should handle this ticket?",
                "choices": [
                    {"value": "billing", "description": "Payments, invoices, refunds"},
                    {"value": "technical", "description": "Bugs, outages, integrations"},
                    {"value": "sales", "description": "Plans, prices, upgrades"},
                    {"value": "other"},
                ],
            },
            {
                "type": "score",
                "name": "urgency",
                "instructions": "How soon does this need an answer?",
                "levels": [
                    {"label": "Whenever there is time"},
                    {"label": "This week"},
                    {"label": "Today"},
                    {"label": "At once"},
                ],
            },
        ],
    )
    for answer in decision.answers:
        if answer.type == "predicate":
            print(f"{answer.name}: {answer.probability:.1%}")
        elif answer.type == "choice":
            print(f"{answer.name}: {answer.choice} (confidence {answer.confidence:.2f})")
            for entry in answer.probabilities:
                print(f"  {entry.value!s:10} {entry.probability:6.1%}")
        elif answer.type == "score":
            print(f"{answer.name}: {answer.score:.2f} on 0 … {len(answer.probabilities) - 1}")
    print(f"{decision.model}: {decision.usage.total_tokens} tokens read")


if __name__ == "__main__":
    main()
