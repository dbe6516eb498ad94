"""Keys as hashes, and the commands that bring them to HAProxy."""

import hashlib

from mtpilot.gateway.keys import FileApiKeys, key_commands


def test_keys_are_read_as_hashes(tmp_path) -> None:
    (tmp_path / "team-a").write_bytes(b" key-a\n")
    (tmp_path / "odd name").write_text("key-b")
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "..data").mkdir()
    hashes = {hashlib.sha256(key).hexdigest(): name for key, name in ((b"key-a", "team-a"), (b"key-b", "odd_name"))}
    assert FileApiKeys(tmp_path).hashes() == hashes
    assert FileApiKeys(tmp_path / "none").hashes() is None


def test_commands_end_with_the_word_that_all_is_there() -> None:
    assert key_commands({"aa": "a", "bb": "b"}, {"bb": "old", "cc": "c"}) == (
        "del map keys.map cc",
        "set map keys.map bb b",
        "add map keys.map aa a",
        "add map keys.map loaded yes",
    )
    assert key_commands({"aa": "a"}, {"aa": "a", "loaded": "yes"}) == ()
    assert key_commands({}, {}) == ("add map keys.map loaded yes",)
