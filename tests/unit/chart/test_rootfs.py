"""The root file system of the images: what is taken keeps its links, and nothing beside it comes along."""

from __future__ import annotations

from pathlib import Path

from images.rootfs import Rootfs, packages


def base(folder: Path) -> Path:
    """A base image with usr-merge: /lib is a link, and a library is known by a link as well."""
    (folder / "usr/lib").mkdir(parents=True)
    (folder / "lib").symlink_to("usr/lib")
    (folder / "usr/lib/libx.so.1.2").write_text("x")
    (folder / "usr/lib/libx.so.1").symlink_to("libx.so.1.2")
    (folder / "usr/lib/other.so").write_text("o")
    (folder / "etc/certs").mkdir(parents=True)
    (folder / "etc/certs/a.pem").write_text("a")
    (folder / "usr/certs").symlink_to(folder / "etc/certs")
    return folder


def test_a_library_comes_with_its_links_and_without_its_neighbours(tmp_path: Path) -> None:
    source = base(tmp_path / "base")
    rootfs = Rootfs(tmp_path / "root")
    rootfs.take(source / "lib/libx.so.1")
    copy = rootfs.root / source.relative_to("/")
    assert (copy / "lib").readlink() == Path("usr/lib")
    assert (copy / "lib/libx.so.1").read_text() == "x"
    assert (copy / "usr/lib/libx.so.1").is_symlink()
    assert sorted(path.name for path in (copy / "usr/lib").iterdir()) == ["libx.so.1", "libx.so.1.2"]


def test_an_absolute_link_stays_one_and_its_folder_is_taken_whole(tmp_path: Path) -> None:
    source = base(tmp_path / "base")
    rootfs = Rootfs(tmp_path / "root")
    rootfs.take(source / "usr/certs")
    copy = rootfs.root / source.relative_to("/")
    assert (copy / "usr/certs").readlink() == source / "etc/certs"
    assert (copy / "etc/certs/a.pem").read_text() == "a"


def test_packages_are_those_that_own_a_taken_file_on_either_side_of_usr_merge(tmp_path: Path) -> None:
    for name, owned in {"libx1:amd64": "/lib\n/lib/libx.so.1.2\n", "liby": "/usr/lib/liby.so\n", "libz": "/usr/lib/libz.so\n"}.items():
        (tmp_path / f"{name}.list").write_text(owned)
    assert packages({Path("/usr/lib/libx.so.1.2"), Path("/usr/lib/liby.so")}, tmp_path) == {"libx1", "liby"}
