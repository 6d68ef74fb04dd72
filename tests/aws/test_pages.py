"""Lists are read to their end: a call that AWS answers in pages goes through the paginator, or the reason why not is here."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import botocore.session
from botocore import xform_name

SOURCE = Path(__file__).parents[2] / "src/instantstart"
#: (service, operation) read in one call although AWS pages it
ONE_PAGE = {
    ("cloudformation", "describe_stacks"): "one stack by its name",
    ("ec2", "describe_instance_types"): "one type by its name",
    ("ec2", "describe_subnets"): "one subnet by its id",
    ("ec2", "describe_vpcs"): "one VPC by its id",
    ("ec2", "describe_vpc_endpoint_services"): "the service names come whole with each answer; gateway services are two",
    ("ecr", "describe_images"): "one image by its digest or tag",
    ("ecr", "describe_repositories"): "one repository by its name",
    ("fsx", "describe_file_systems"): "one file system by its id",
    ("iam", "list_role_tags"): "a role has at most 50 tags, one page has 100",
    ("logs", "describe_log_streams"): "the newest five are meant",
    ("s3", "list_object_versions"): "is there one at all; or a thousand at a time, and again until none is left",
    ("s3", "list_objects_v2"): "a folder's page, with a cursor to the next; or as many folders as are shown",
    ("sagemaker", "list_cluster_events"): "the newest are meant",
    ("sagemaker", "list_cluster_operations"): "the newest are meant; a list of them has a cursor",
}


def half_read(unread: Iterable[str]) -> set[str]:
    """Those of ``service:Operation`` of which a page was left unread, and no reason for it stands above."""
    return {each for each in unread if (each.partition(":")[0], xform_name(each.partition(":")[2])) not in ONE_PAGE}


@cache
def _paged(service: str) -> frozenset[str]:
    client = botocore.session.get_session().create_client(
        service, region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x"
    )
    return frozenset(name for name in client.meta.method_to_api_mapping if client.can_paginate(name))


def _reads() -> Iterator[tuple[str, str]]:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "read":
                words = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                if len(words) == 2:
                    yield words[0], words[1]


def test_every_paged_list_goes_through_the_paginator() -> None:
    found = {(service, operation) for service, operation in _reads() if operation in _paged(service)}
    assert found == set(ONE_PAGE)
