"""Objects go through the same door as every call: bodies in one piece, in parts, in chunks, and by presigned URL."""

from __future__ import annotations

import http.client
import socket
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

REGION = "us-west-2"


@pytest.fixture
def s3(sandbox: Any) -> Any:
    client = sandbox.client("s3")
    client.create_bucket(Bucket="one-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    return client


@pytest.mark.parametrize("key", ["plain", "a/b/c.sh", "with space/and+plus", "ümlaut/日本", "percent%2Fslash"])
def test_an_object_comes_back_as_it_went(s3: Any, key: str) -> None:
    s3.put_object(Bucket="one-bucket", Key=key, Body=b"\x00\xff" * 500)
    assert s3.get_object(Bucket="one-bucket", Key=key)["Body"].read() == b"\x00\xff" * 500
    assert s3.head_object(Bucket="one-bucket", Key=key)["ContentLength"] == 1000
    assert [o["Key"] for o in s3.list_objects_v2(Bucket="one-bucket")["Contents"]] == [key]


def test_a_multipart_upload(s3: Any) -> None:
    upload = s3.create_multipart_upload(Bucket="one-bucket", Key="big")["UploadId"]
    parts = []
    for number in (1, 2):
        tag = s3.upload_part(Bucket="one-bucket", Key="big", UploadId=upload, PartNumber=number, Body=bytes([number]) * (5 << 20))["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
    s3.complete_multipart_upload(Bucket="one-bucket", Key="big", UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.head_object(Bucket="one-bucket", Key="big")["ContentLength"] == 10 << 20
    assert s3.get_object(Bucket="one-bucket", Key="big", Range="bytes=5242879-5242880")["Body"].read() == b"\x01\x02"


def test_a_presigned_url_reads_and_writes(s3: Any) -> None:
    put = s3.generate_presigned_url("put_object", Params={"Bucket": "one-bucket", "Key": "k"})
    with urllib.request.urlopen(urllib.request.Request(put, data=b"hello", method="PUT"), timeout=10) as reply:
        assert reply.status == 200
    with urllib.request.urlopen(s3.generate_presigned_url("get_object", Params={"Bucket": "one-bucket", "Key": "k"}), timeout=10) as reply:
        assert reply.read() == b"hello"


def test_signature_version_2_is_not_supported_any_more(sandbox: Any, s3: Any) -> None:
    old = f"{sandbox.endpoint}/one-bucket/k?AWSAccessKeyId={sandbox.keys['access_key_id']}&Signature=x&Expires=9999999999"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(old, timeout=10)
    assert caught.value.code == 400
    assert b"AWS4-HMAC-SHA256" in caught.value.read()


def test_a_body_in_chunks(sandbox: Any, s3: Any) -> None:
    put = urlsplit(s3.generate_presigned_url("put_object", Params={"Bucket": "one-bucket", "Key": "chunks"}))
    connection = http.client.HTTPConnection(put.netloc, timeout=10)
    connection.request(
        "PUT", f"{put.path}?{put.query}", body=iter([b"one ", b"two"]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"}
    )
    assert connection.getresponse().status == 200
    assert s3.get_object(Bucket="one-bucket", Key="chunks")["Body"].read() == b"one two"


def test_a_caller_that_dies_while_it_speaks_has_asked_nothing(sandbox: Any, s3: Any) -> None:
    put = urlsplit(s3.generate_presigned_url("put_object", Params={"Bucket": "one-bucket", "Key": "half"}))
    connection = http.client.HTTPConnection(put.netloc, timeout=10)
    connection.putrequest("PUT", f"{put.path}?{put.query}")
    connection.putheader("Content-Length", "9")
    connection.endheaders(b"half")
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_WR)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        connection.getresponse()
    assert [each["error"] for each in sandbox.admin("journal")][-1] == "NeverCame"
    assert "Contents" not in s3.list_objects_v2(Bucket="one-bucket")


def test_a_body_that_is_too_large_is_refused(sandbox: Any, s3: Any) -> None:
    sandbox.admin("settings", max_body_bytes=1000)
    with pytest.raises(ClientError, match="EntityTooLarge"):
        s3.put_object(Bucket="one-bucket", Key="k", Body=b"x" * 1001)


def test_missing_things_have_their_codes(s3: Any, refused: Any) -> None:
    assert refused(s3.get_object, Bucket="one-bucket", Key="nothing") == "NoSuchKey"
    assert refused(s3.head_bucket, Bucket="no-bucket") == "404"
    assert refused(s3.delete_bucket, Bucket="no-bucket") == "NoSuchBucket"
    s3.put_object(Bucket="one-bucket", Key="k", Body=b"")
    assert refused(s3.delete_bucket, Bucket="one-bucket") == "BucketNotEmpty"


def test_s3_calls_are_in_the_journal_with_their_resource(sandbox: Any, s3: Any) -> None:
    s3.put_object(Bucket="one-bucket", Key="a/b", Body=b"x")
    entry = [e for e in sandbox.admin("journal") if e["operation"] == "PutObject"][-1]
    assert entry["resources"] == ["arn:aws:s3:::one-bucket/a/b"]
