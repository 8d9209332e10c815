"""Tables on an S3 server: what processes must know of it, and how it is read."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from log.s3 import BUCKET, Server

REGION = "us-east-1"


def s3_environment(server: Server, folder: Path) -> dict[str, str]:
    """For a process of its own; `lake` is a catalog there."""
    catalog = {
        f"PYICEBERG_CATALOG__LAKE__{name}": value for name, value in _catalog(server, folder)
    }
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_REGION": REGION,
        **catalog,
    }


def _catalog(server: Server, folder: Path) -> list[tuple[str, str]]:
    return [
        ("TYPE", "sql"),
        ("URI", f"sqlite:///{folder}/catalog.db"),
        ("WAREHOUSE", f"s3://{BUCKET}/{folder.name}/wh"),
        ("S3__ENDPOINT", server.endpoint),
        ("S3__REGION", REGION),
    ]


def open_remote(form: str, folder: Path) -> tuple[str, list[str]]:
    """The table that a command is told, and with which flags; moto has one memory for all."""
    if form == "delta":
        return f"s3://{BUCKET}/{folder.name}/t", []
    return "shop.orders", ["--catalog", "lake"]


def read_remote(form: str, server: Server, folder: Path) -> Any:
    """All rows."""
    table = load_remote(form, server, folder)
    return table.to_pyarrow_table() if form == "delta" else table.scan().to_arrow()


def orphans_remote(form: str, server: Server, folder: Path) -> set[str]:
    """The data files on the server that no state of the table has."""
    table = load_remote(form, server, folder)
    if form == "delta":
        known = set(table.file_uris())
    else:
        known = set(table.inspect.all_data_files()["file_path"].to_pylist())
    pages = server.client().get_paginator("list_objects_v2")
    keys = [
        each["Key"]
        for page in pages.paginate(Bucket=BUCKET, Prefix=f"{folder.name}/")
        for each in page.get("Contents", [])
    ]
    there = {f"s3://{BUCKET}/{key}" for key in keys if key.endswith(".parquet")}
    return {path for path in there if "_delta_log" not in path} - known


def load_remote(form: str, server: Server, folder: Path) -> Any:
    if form == "delta":
        options = {
            "aws_endpoint_url": server.endpoint,
            "aws_allow_http": "true",
            "aws_region": REGION,
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
        }
        where, _ = open_remote(form, folder)
        return DeltaTable(where, storage_options=options)
    given = {
        "s3.endpoint": server.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": "test",
        "s3.secret-access-key": "test",
    }
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", **given)
    return catalog.load_table("shop.orders")
