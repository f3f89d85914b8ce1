#!/usr/bin/env python3
"""Makes tests/it/github/openapi-facts.json from GitHub's published OpenAPI description.

Source: the npm package @octokit/openapi, version 23.0.2, file generated/api.github.com.json.

    npm install --prefix DIR @octokit/openapi@23.0.2
    tests/facts/extract-openapi.py DIR/node_modules/@octokit/openapi/generated/api.github.com.json

Kept is what can be checked by a machine, for the operations that src/github calls: method, path,
success codes, and as JSON Schema the types of required properties of requests and answers (null
where it is allowed). Optional properties, descriptions and examples are left out.
"""

import json
import pathlib
import sys

OPERATIONS = [
    "apps/get-authenticated",
    "apps/get-repo-installation",
    "apps/create-installation-access-token",
    "apps/revoke-installation-access-token",
    "apps/create-from-manifest",
    "apps/list-webhook-deliveries",
    "apps/get-webhook-delivery",
    "repos/get",
    "repos/get-collaborator-permission-level",
    "issues/get",
    "issues/list-comments",
    "issues/create-comment",
    "issues/update-comment",
    "issues/delete-comment",
    "issues/remove-label",
    "reactions/create-for-issue",
    "reactions/create-for-issue-comment",
    "reactions/create-for-pull-request-review-comment",
    "pulls/get",
    "pulls/list",
    "pulls/create",
    "pulls/list-review-comments",
    "git/get-ref",
    "search/issues-and-pull-requests",
    "issues/list-labels-for-repo",
    "issues/create",
    "issues/list-for-repo",
    "issues/add-sub-issue",
    "issues/list-events",
    "security-advisories/create-repository-advisory",
    "pulls/list-reviews",
    "pulls/create-review",
    "pulls/create-reply-for-review-comment",
    "pulls/request-reviewers",
    "pulls/list-files",
    "checks/list-for-ref",
    "checks/create",
    "checks/update",
    "checks/rerequest-run",
    "checks/list-annotations",
    "repos/get-combined-status-for-ref",
]

# A request may carry optional properties too: their types are facts that our own requests use.
OPTIONAL_OF_REQUESTS = {
    "repository_ids", "permissions", "body", "draft", "labels", "event", "comments", "commit_id", "reviewers", "title",
    "state", "details_url", "external_id", "status", "conclusion", "output", "severity", "text", "annotations", "line",
    "side", "start_line", "start_side",
}


def facts_of(schema, definitions, spec, request=False):
    """The checkable part of a schema; referenced schemas are collected in `definitions`."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        if name not in definitions:
            definitions[name] = {}  # stops recursion
            definitions[name] = facts_of(spec["components"]["schemas"][name], definitions, spec)
        return {"$ref": f"#/$defs/{name}"}
    facts = {}
    for word in ("oneOf", "anyOf", "allOf"):
        if word in schema:
            # An answer must fit at least one shape; leaner schemas make several fit.
            kept = "anyOf" if word == "oneOf" else word
            facts[kept] = [facts_of(part, definitions, spec) for part in schema[word]]
            if schema.get("nullable") and kept == "anyOf":
                facts[kept].append({"type": "null"})
            elif schema.get("nullable"):
                facts = {"anyOf": [facts, {"type": "null"}]}
    if "type" in schema:
        facts["type"] = [schema["type"], "null"] if schema.get("nullable") else schema["type"]
    if "enum" in schema:
        # The description forgets null in the values of nullable enumerations.
        facts["enum"] = schema["enum"] + ([None] if schema.get("nullable") and None not in schema["enum"] else [])
    required = schema.get("required", [])
    if required:
        facts["required"] = sorted(required)
    properties = schema.get("properties", {})
    kept = [name for name in properties if name in required or (request and name in OPTIONAL_OF_REQUESTS)]
    if kept:
        facts["properties"] = {name: facts_of(properties[name], definitions, spec, request) for name in sorted(kept)}
    if "items" in schema:
        facts["items"] = facts_of(schema["items"], definitions, spec, request)
    for limit in ("maxLength", "maxItems"):
        if request and limit in schema:
            facts[limit] = schema[limit]
    return facts


def json_schema(content):
    return content.get("content", {}).get("application/json", {}).get("schema")


def main():
    spec = json.loads(pathlib.Path(sys.argv[1]).read_text())
    definitions, operations = {}, {}
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            if not isinstance(operation, dict) or operation.get("operationId") not in OPERATIONS:
                continue
            fact = {"method": method.upper(), "path": path, "answers": {}}
            request = json_schema(operation.get("requestBody", {}))
            if request:
                fact["request"] = facts_of(request, definitions, spec, request=True)
            for code, response in operation["responses"].items():
                if "$ref" in response:
                    response = spec["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
                if code.startswith("2"):
                    schema = json_schema(response)
                    fact["answers"][code] = facts_of(schema, definitions, spec) if schema else None
            operations[operation["operationId"]] = fact
    missing = set(OPERATIONS) - set(operations)
    if missing:
        sys.exit(f"the description lacks {sorted(missing)}")
    facts = {"operations": operations, "$defs": definitions}
    target = pathlib.Path(__file__).parent.parent / "it" / "github" / "openapi-facts.json"
    target.write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
    print(f"{len(operations)} operations, {target.stat().st_size} bytes")


main()
