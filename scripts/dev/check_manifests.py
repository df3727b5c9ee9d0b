#!/usr/bin/env python3
"""check_manifests.py [--mpi-crd FILE] [--eksctl-schema FILE] FILE... - YAML and JSON files against
the schemas of the programs they are for.

Called by check_manifests.sh. A line for each document, "ok", "FAIL" or "skip"; status 1 if one has
failed. ${NAMES} are replaced as envsubst would. A schema only counts after it has refused the same
document with a wrong key in it.
"""
import argparse
import copy
import json
import os
import re
import sys

import yaml

KUBERNETES = "1.34"
VALUES = {
    "BUCKET": "my-bucket", "KEY": "my-key", "REGION": "us-east-1", "ZONE": "us-east-1a",
    "OTHER_ZONE": "us-east-1b",
    "SUBNET": "subnet-00000000000000001", "PUBLIC_SUBNET": "subnet-00000000000000001",
    "PRIVATE_SUBNET": "subnet-00000000000000002",
    "EXECUTION_ROLE": "arn:aws:iam::111122223333:role/convoy",
    "SSH_KEY_SECRET": "arn:aws:secretsmanager:us-east-1:111122223333:secret:convoy",
    "SECURITY_GROUP": "sg-00000000000000001", "FSX_ID": "fs-00000000000000001",
    "FSX_MOUNT": "abcdefgh", "IMAGE": "registry.example/convoy:efa",
}


class Skip(Exception):
    """The schema is not at hand; says why."""


def strict(schema):
    """No key that the schema does not name, as the API server's strict field validation has it."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: strict(item) for key, item in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema \
            and not schema.get("x-kubernetes-preserve-unknown-fields"):
        schema["additionalProperties"] = False
    return schema


def first_error(schema, document):
    try:
        import jsonschema
    except ImportError:
        raise Skip("the Python package jsonschema is not there")
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft7Validator(schema).iter_errors(document))
    return error and f"{'.'.join(map(str, error.absolute_path))}: {error.message}"


def check_mpijob(document, options):
    if not options.mpi_crd:
        raise Skip("no definition of MPIJob (--mpi-crd)")
    with open(options.mpi_crd) as file:
        definitions = [d for d in yaml.safe_load_all(file)
                       if d and d.get("kind") == "CustomResourceDefinition"]
    versions = [v for d in definitions if d["spec"]["names"]["kind"] == "MPIJob"
                for v in d["spec"]["versions"] if v["name"] == "v2beta1"]
    if not versions:
        raise Skip(f"{options.mpi_crd} does not define MPIJob v2beta1")
    schema = strict(versions[0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}  # the API server's own
    return first_error(schema, document) or mpijob_rules(document)


def mpijob_rules(document):
    """What the operator checks besides its schema."""
    replicas = document["spec"]["mpiReplicaSpecs"]
    if replicas["Launcher"].get("replicas", 1) != 1:
        return "the launcher has more than one replica"
    for name, spec in replicas.items():
        if spec.get("restartPolicy", "Never") not in ("Never", "OnFailure"):
            return f"restartPolicy of {name} is neither Never nor OnFailure"
    last = f"{document['metadata']['name']}-worker-{replicas['Worker']['replicas'] - 1}"
    if not re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", last):
        return "the name makes no DNS labels of the workers"
    return None


def check_eksctl(document, options):
    if not options.eksctl_schema:
        raise Skip("no schema of eksctl (--eksctl-schema)")
    with open(options.eksctl_schema) as file:
        return first_error(json.load(file), document)


def check_kubernetes(document, _options):
    try:
        import kubernetes_validate
    except ImportError:
        raise Skip("the Python package kubernetes-validate is not there")
    try:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    return None


def check_parallelcluster(document, _options):
    try:
        from marshmallow import ValidationError
        from pcluster.schemas.cluster_schema import ClusterSchema
    except ImportError:
        raise Skip("the Python package aws-parallelcluster is not there")
    os.environ.setdefault("AWS_DEFAULT_REGION", VALUES["REGION"])
    try:
        cluster = ClusterSchema(cluster_name="convoy").load(document)
    except ValidationError as error:
        return json.dumps(error.normalized_messages())
    # Rules beyond the schema, as far as they ask AWS nothing.
    said = [result.message for storage in cluster.shared_storage or []
            for result in storage.validate() if result.level.name == "ERROR"]
    said = [message for message in said if "credentials" not in message]
    return said[0] if said else None


def check_ecs(document, _options):
    try:
        import botocore.session
        from botocore.validate import ParamValidator
    except ImportError:
        raise Skip("the Python package botocore is not there")
    model = botocore.session.get_session().get_service_model("ecs")
    report = ParamValidator().validate(document,
                                       model.operation_model("RegisterTaskDefinition").input_shape)
    return report.generate_report() if report.has_errors() else None


# (what a document has to be, who checks it, what that is called); the first that fits
CHECKS = [
    (lambda d: "Scheduling" in d, check_parallelcluster, "schema of ParallelCluster"),
    (lambda d: "containerDefinitions" in d, check_ecs, "model of the ECS API"),
    (lambda d: d.get("kind") == "ClusterConfig", check_eksctl, "schema of eksctl"),
    (lambda d: d.get("kind") == "MPIJob", check_mpijob, "definition of the MPI operator"),
    (lambda d: "apiVersion" in d, check_kubernetes, f"schema of Kubernetes {KUBERNETES}"),
]


def misspelt(document):
    """The document with one deep key misspelt: what a schema has to notice."""
    wrong = copy.deepcopy(document)
    at = wrong.get("Scheduling") or wrong.get("spec") or wrong
    for key in ("mpiReplicaSpecs", "Worker"):
        at = at.get(key, at)
    at["misspelt"] = "x"
    return wrong


def check(document, options):
    for fits, checker, title in CHECKS:
        if fits(document):
            said = checker(document, options)
            if said is None and checker(misspelt(document), options) is None:
                said = "the schema takes any key"
            return title, said
    return "any schema", "of no kind that is known here"


def documents(path):
    with open(path) as file:
        text = re.sub(r"\$\{([A-Z_]+)\}", lambda name: VALUES[name[1]], file.read())
    return [d for d in yaml.safe_load_all(text) if d is not None]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mpi-crd")
    parser.add_argument("--eksctl-schema")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    failed = False
    for path in options.files:
        for document in documents(path):
            name = f"{path} {document.get('kind', '')}".strip()
            try:
                title, said = check(document, options)
                failed |= said is not None
                print(f"ok   {name} ({title})" if said is None
                      else f"FAIL {name} ({title}): {said}", flush=True)
            except Skip as reason:
                print(f"skip {name}: {reason}", flush=True)
    return 1 if failed else 0


sys.exit(main())
