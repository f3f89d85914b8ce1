#!/usr/bin/env python3
"""Makes tests/it/github/graphql-facts.json from GitHub's published GraphQL schema.

Source: the npm package @octokit/graphql-schema, version 15.26.1, file schema.json.

    npm install --prefix DIR @octokit/graphql-schema@15.26.1
    tests/facts/extract-graphql.py DIR/node_modules/@octokit/graphql-schema/schema.json

Kept is what our operations name: for each type its fields with their types and arguments, the
fields of input objects, and which types stand behind an interface.
"""

import json
import pathlib
import sys

FIELDS = {
    "Query": ["repository", "node"],
    "Mutation": ["resolveReviewThread", "markPullRequestReadyForReview"],
    "Repository": ["pullRequest", "issue"],
    "Issue": ["lastEditedAt", "userContentEdits"],
    "UserContentEditConnection": ["nodes", "pageInfo"],
    "UserContentEdit": ["editedAt", "editor"],
    "PullRequest": ["id", "isDraft", "reviewThreads"],
    "PullRequestReviewThreadConnection": ["nodes", "pageInfo"],
    "PullRequestReviewThread": [
        "id", "isResolved", "isOutdated", "path", "line", "startLine", "originalLine", "diffSide", "comments",
    ],
    "PullRequestReviewCommentConnection": ["nodes", "pageInfo"],
    "PullRequestReviewComment": [
        "fullDatabaseId", "body", "createdAt", "updatedAt", "diffHunk", "author", "originalCommit", "replyTo",
        "pullRequestReview",
    ],
    "PullRequestReview": ["fullDatabaseId"],
    "PageInfo": ["hasNextPage", "endCursor"],
    "Commit": ["oid"],
    "Actor": ["login"],
    "User": ["databaseId"],
    "Bot": ["databaseId"],
    "Mannequin": ["databaseId"],
    "Organization": ["databaseId"],
    "Node": ["id"],
    "ResolveReviewThreadPayload": ["thread"],
    "MarkPullRequestReadyForReviewPayload": ["pullRequest"],
}
INPUTS = ["ResolveReviewThreadInput", "MarkPullRequestReadyForReviewInput"]
POSSIBLE = {"Actor": None, "Node": ["PullRequestReviewThread"]}


def spelled(kind):
    if kind["kind"] == "NON_NULL":
        return spelled(kind["ofType"]) + "!"
    if kind["kind"] == "LIST":
        return "[" + spelled(kind["ofType"]) + "]"
    return kind["name"]


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    schema = schema.get("data", schema)["__schema"]
    types = {kind["name"]: kind for kind in schema["types"]}
    facts = {"types": {}, "inputs": {}, "possible": {}}
    for name, wanted in FIELDS.items():
        fields = {field["name"]: field for field in types[name]["fields"]}
        facts["types"][name] = {}
        for field in wanted:
            fact = {"type": spelled(fields[field]["type"])}
            args = {arg["name"]: spelled(arg["type"]) for arg in fields[field]["args"]}
            if args:
                fact["args"] = args
            facts["types"][name][field] = fact
    for name in INPUTS:
        fields = types[name]["inputFields"]
        facts["inputs"][name] = {field["name"]: spelled(field["type"]) for field in fields}
    for name, wanted in POSSIBLE.items():
        possible = sorted(kind["name"] for kind in types[name]["possibleTypes"])
        facts["possible"][name] = [kind for kind in possible if wanted is None or kind in wanted]
    target = pathlib.Path(__file__).parent.parent / "it" / "github" / "graphql-facts.json"
    target.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    print(f"{len(facts['types'])} types, {target.stat().st_size} bytes")


main()
