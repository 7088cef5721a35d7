"""Triage of open pull requests: several at once, JSON states, two orders of the options averaged."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from typesafe_sdk import AsyncTypeSafeClient, Choice, Noul, Score, SystemOneResponse

BASE_URL = os.environ.get("REFLEX_URL", "http://127.0.0.1:8000")
API_KEY = os.environ.get("REFLEX_API_KEY", "none")
AT_ONCE = 8
"""Requests under way at a time; the server puts them into one forward."""

PULL_REQUESTS: list[dict[str, Any]] = [
    {
        "number": 214,
        "title": "Retry uploads on timeout",
        "description": "Uploads sometimes time out on slow links. Three retries with backoff.",
        "files": ["src/upload/client.py", "src/upload/retry.py"],
        "added": 84,
        "removed": 12,
        "tests_changed": False,
    },
    {
        "number": 215,
        "title": "Fix typo in install guide",
        "description": "",
        "files": ["docs/install.md"],
        "added": 1,
        "removed": 1,
        "tests_changed": False,
    },
    {
        "number": 217,
        "title": "Move session tokens to the new key store",
        "description": "Old tokens stay valid for a day. Rollback: flip SESSION_STORE.",
        "files": ["src/auth/session.py", "src/auth/keys.py", "migrations/0041.sql"],
        "added": 412,
        "removed": 266,
        "tests_changed": True,
    },
]
QUESTIONS: dict[str, Noul | Choice | Score] = {
    "kind": Choice(
        instructions="What kind of change is this?",
        criteria={
            "fix": "Mends wrong behaviour",
            "feature": "Adds behaviour",
            "refactor": "Changes structure, not behaviour",
            "docs": "Documentation only",
        },
    ),
    "needs_tests": Noul(
        instructions="Should this change come with a new test?",
        criteria={
            "true": "Behaviour changes and no test covers it",
            "false": "Nothing to test, or already covered",
        },
    ),
    "risk": Score(
        instructions="How risky is it to merge this as it is?",
        criteria=["Harmless", "Worth a look", "Needs a careful review", "Could break users"],
    ),
}


async def triage(pull_requests: list[dict[str, Any]]) -> list[SystemOneResponse]:
    """Answers for each, in order."""
    room = asyncio.Semaphore(AT_ONCE)
    async with AsyncTypeSafeClient(base_url=BASE_URL, api_key=API_KEY) as client:

        async def ask(state: dict[str, Any]) -> SystemOneResponse:
            async with room:
                # `permutations` is reflex's own: it averages over orders of the options.
                return await client.system_one(
                    state=state, questions=QUESTIONS, extra_body={"permutations": 2}
                )

        return await asyncio.gather(*map(ask, pull_requests))


def main() -> None:
    responses = asyncio.run(triage(PULL_REQUESTS))
    riskiest = sorted(
        zip(PULL_REQUESTS, responses, strict=True), key=lambda pair: -pair[1].scores["risk"].score
    )
    print(f"{'#':>4}  {'risk':>4}  {'tests?':>6}  {'kind':14}  title")
    for pull_request, response in riskiest:
        kind = response.choices["kind"]
        print(
            f"{pull_request['number']:>4}  {response.scores['risk'].score:4.2f}  "
            f"{response.nouls['needs_tests'].noul:6.0%}  {kind.choice:8} {kind.confidence:5.2f}  "
            f"{pull_request['title']}"
        )


if __name__ == "__main__":
    main()
