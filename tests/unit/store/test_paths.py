from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bindery.router.errors import InvalidInput
from bindery.store.paths import DataDir, encode_name


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("/", "~2F"),
        ("orders", "orders"),
        ("Orders-2", "Orders-2"),
        ("a.b_c", "a~2Eb~5Fc"),
        ("..", "~2E~2E"),
        ("%2F", "~252F"),
        ("a b[c]", "a~20b~5Bc~5D"),
        ("é", "~C3~A9"),
        ("~", "~7E"),
    ],
)
def test_bytes_outside_letters_digits_and_hyphen_become_tilde_and_upper_case_hex(name: str, folder: str) -> None:
    assert encode_name(name) == folder


def test_an_encoded_name_of_200_characters_is_kept_and_a_longer_one_cut_and_hashed() -> None:
    assert encode_name("a" * 200) == "a" * 200
    digest = hashlib.sha256(b"a" * 201).hexdigest()[:32]
    assert encode_name("a" * 201) == "a" * 160 + "~~" + digest
    assert len(encode_name("é" * 127)) == 160 + 2 + 32


@given(st.lists(st.text(max_size=90), min_size=2, max_size=2, unique=True))
def test_different_names_have_different_safe_folders(names: list[str]) -> None:
    first, second = (encode_name(name) for name in names)
    assert first != second
    assert all(char.isascii() and (char.isalnum() or char in "-~") for char in first)


@pytest.mark.parametrize("folder", ["with blank", "100%", "naïve", "a[b]", "tab\t"])
def test_a_data_directory_that_delta_readers_cannot_open_is_refused(tmp_path: Path, folder: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        DataDir.open(tmp_path / folder, create=True)
    assert refused.value.hint
    assert not (tmp_path / folder).exists()


def test_a_missing_data_directory_is_refused_unless_it_may_be_created(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        DataDir.open(tmp_path / "d")
    assert DataDir.open(tmp_path / "d", create=True).root == (tmp_path / "d").as_posix()
    assert DataDir.open(tmp_path / "d").queue("/", "a.b") == f"{tmp_path}/d/queues/~2F/a~2Eb"


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(InvalidInput, match="not a directory"):
        DataDir.open(tmp_path / "f", create=True)


@pytest.mark.parametrize("address", ["file:/srv/bindery", "hdfs://name/bindery", "s3:/bucket/bindery"])
def test_an_address_without_an_object_store_is_no_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for form in (address, Path(address)):
        with pytest.raises(InvalidInput, match="is an address that cannot be one"):
            DataDir.open(form, create=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "address", ["s3://bucket", "s3a://bucket/", "gs://bucket//", "s3://bucket/a/../b", "s3://bucket/a b"]
)
def test_a_url_is_a_prefix_of_a_bucket(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"whole bucket|cannot be one|in its path"):
        DataDir.open(address, create=True)
