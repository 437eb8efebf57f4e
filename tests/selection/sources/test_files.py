"""One test for each input of a repository that broke a peer, on real git repositories."""

import contextlib
import inspect
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cicl.selection.records import Skipped
from cicl.selection.sources import git, plaintree
from cicl.selection.sources.files import FileEntry, Limits, Listing, list_files, read_file

Git = Callable[..., str]

needs_fifo = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
needs_other_user = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a directory away"
)
needs_permissions = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)


@pytest.fixture(autouse=True)
def _no_user_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


@pytest.fixture
def run_git() -> Git:
    def run(where: Path, *arguments: str) -> str:
        identity = (
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "init.defaultBranch=main",
        )
        local = ("-c", "protocol.file.allow=always", "-c", "core.fsmonitor=")
        command = ["git", *identity, *local, *arguments]
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=True)
        return done.stdout

    return run


@pytest.fixture
def repository(tmp_path: Path, run_git: Git) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    run_git(root, "init", "-q")
    return root.resolve()


def write(root: Path, *paths: str, text: str = "x = 1\n") -> None:
    for path in paths:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def paths(listing: Listing) -> list[str]:
    return [entry.path for entry in listing.files]


def reasons(listing: Listing) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in listing.skipped}


# With git.


def test_tracked_and_untracked_files_are_listed_by_path_and_ignored_ones_are_not(
    repository: Path, run_git: Git
) -> None:
    write(repository, "z.py", "a/b.py", "new.py", "secret.log")
    write(repository, ".gitignore", text="*.log\n")
    run_git(repository, "add", "z.py", "a/b.py", ".gitignore")
    listing = list_files(repository)
    assert paths(listing) == [".gitignore", "a/b.py", "new.py", "z.py"]
    assert listing.root == repository
    assert listing.skipped == ()
    assert listing.notes == ()


def test_an_entry_holds_what_a_changed_file_changes(repository: Path) -> None:
    write(repository, "a.py")
    before = list_files(repository).files[0]
    status = os.stat(repository / "a.py")
    assert before == FileEntry("a.py", 6, status.st_mtime_ns, status.st_ctime_ns)
    assert list_files(repository).files[0] == before
    os.utime(repository / "a.py", ns=(0, before.mtime_ns + 1))
    assert list_files(repository).files[0] != before


def test_tracked_file_that_was_deleted_is_absent(repository: Path, run_git: Git) -> None:
    write(repository, "a.py", "d/b.py")
    run_git(repository, "add", ".")
    shutil.rmtree(repository / "d")
    write(repository, "d", text="a file where the directory was")
    assert paths(list_files(repository)) == ["a.py", "d"]
    assert list_files(repository).skipped == ()


def test_no_commit_yet(repository: Path, run_git: Git) -> None:
    write(repository, "staged.py", "untracked.py")
    run_git(repository, "add", "staged.py")
    assert paths(list_files(repository)) == ["staged.py", "untracked.py"]


def test_broken_head(repository: Path, run_git: Git) -> None:
    write(repository, "a.py")
    run_git(repository, "add", ".")
    (repository / ".git/HEAD").write_text("ref: refs/heads/no-such-branch\n")
    assert paths(list_files(repository)) == ["a.py"]


@pytest.mark.parametrize("with_git", [True, False])
def test_empty_tree(tmp_path: Path, run_git: Git, with_git: bool) -> None:
    if with_git:
        run_git(tmp_path, "init", "-q")
    listing = list_files(tmp_path)
    assert (listing.files, listing.skipped, listing.notes) == ((), (), ())


@pytest.mark.parametrize("with_git", [True, False])
def test_ignore_everything_then_include_again_with_nested_ignore_files(
    tmp_path: Path, run_git: Git, with_git: bool
) -> None:
    if with_git:
        run_git(tmp_path, "init", "-q")
    write(tmp_path, ".gitignore", text="*\n!*/\n!.gitignore\n!src/**\n")
    write(tmp_path, "top.py", "src/a.py", "src/deep/b.py", "src/deep/c.log", "docs/d.md")
    write(tmp_path, "src/deep/.gitignore", text="*.log\n")
    assert paths(list_files(tmp_path)) == [
        ".gitignore",
        "src/a.py",
        "src/deep/.gitignore",
        "src/deep/b.py",
    ]


NAMES = [
    "a b.py",
    'quo"te.py',
    "back\\slash.py",
    "line\nbreak.py",
    "tab\t.py",
    "数据/模块.py",
    "é.py",
    ":(top).py",
]


@pytest.mark.skipif(os.name == "nt", reason="Windows allows no such names")
@pytest.mark.parametrize("mode", ["tracked", "untracked", "no git", "no git but ignore files"])
def test_names_with_newline_quote_and_中文(tmp_path: Path, run_git: Git, mode: str) -> None:
    expected = [*NAMES, ".gitignore"] if mode == "no git but ignore files" else NAMES
    write(tmp_path, *expected, text="*.log\n")
    if not mode.startswith("no git"):
        run_git(tmp_path, "init", "-q")
    if mode == "tracked":
        run_git(tmp_path, "add", ".")
    listing = list_files(tmp_path)
    assert paths(listing) == sorted(expected)
    assert all(isinstance(read_file(listing.root, entry), bytes) for entry in listing.files)


@pytest.mark.parametrize("with_git", [True, False])
def test_name_that_is_not_utf8_is_skipped_and_can_be_printed(
    tmp_path: Path, run_git: Git, with_git: bool
) -> None:
    try:
        with open(os.fsencode(tmp_path) + b"/caf\xe9.py", "wb"):
            pass
        os.mkdir(os.fsencode(tmp_path) + b"/d\xff")
    except OSError:
        pytest.skip("the file system refuses the name")
    with open(os.fsencode(tmp_path) + b"/d\xff/a.py", "wb"):
        pass
    if with_git:
        run_git(tmp_path, "init", "-q")
    listing = list_files(tmp_path)
    assert listing.files == ()
    assert reasons(listing) == {
        "caf\\xe9.py": "a name that is not UTF-8",
        "d\\xff/a.py": "a name that is not UTF-8",
    }


def test_worktree_lists_its_own_files(repository: Path, tmp_path: Path, run_git: Git) -> None:
    write(repository, "main.py")
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-q", "-m", "one")
    run_git(repository, "worktree", "add", "-q", str(tmp_path / "other"))
    write(tmp_path / "other", "only_here.py")
    assert paths(list_files(tmp_path / "other")) == ["main.py", "only_here.py"]
    assert paths(list_files(repository)) == ["main.py"]


def test_conflicted_file_is_listed_once(repository: Path, run_git: Git) -> None:
    write(repository, "a.py", text="base\n")
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-q", "-m", "base")
    for branch in ("left", "right"):
        run_git(repository, "checkout", "-q", "-b", branch, "main")
        write(repository, "a.py", text=f"{branch}\n")
        run_git(repository, "commit", "-q", "-am", branch)
    with pytest.raises(subprocess.CalledProcessError):
        run_git(repository, "merge", "left")
    assert paths(list_files(repository)) == ["a.py"]


# Repositories inside repositories.


@pytest.fixture
def with_submodule(repository: Path, tmp_path: Path, run_git: Git) -> Path:
    library = tmp_path / "library"
    library.mkdir()
    run_git(library, "init", "-q")
    write(library, "lib.py", "skip.log")
    write(library, ".gitignore", text="*.log\n")
    run_git(library, "add", ".")
    run_git(library, "commit", "-q", "-m", "library")
    run_git(repository, "submodule", "--quiet", "add", library.as_posix(), "vendor/library")
    write(repository, "app.py", "vendor/library/new.py", "vendor/library/new.log")
    return repository


def test_submodule_is_listed_by_its_own_git(with_submodule: Path) -> None:
    listing = list_files(with_submodule)
    assert paths(listing) == [
        ".gitmodules",
        "app.py",
        "vendor/library/.gitignore",
        "vendor/library/lib.py",
        "vendor/library/new.py",
    ]
    assert listing.skipped == ()


def test_submodules_can_be_switched_off(with_submodule: Path) -> None:
    listing = list_files(with_submodule, submodules=False)
    assert paths(listing) == [".gitmodules", "app.py"]
    assert reasons(listing) == {"vendor/library": "a repository of its own; submodules are switched off"}


def test_submodule_that_is_not_checked_out(with_submodule: Path, run_git: Git) -> None:
    run_git(with_submodule, "submodule", "deinit", "-f", "vendor/library")
    listing = list_files(with_submodule)
    assert paths(listing) == [".gitmodules", "app.py"]
    assert "git submodule update --init" in reasons(listing)["vendor/library"]


def test_submodule_without_its_git_directory_is_walked(with_submodule: Path) -> None:
    (with_submodule / "vendor/library/.git").unlink()
    listing = list_files(with_submodule)
    assert "vendor/library/lib.py" in paths(listing)
    assert "vendor/library/new.log" not in paths(listing)


def test_submodule_replaced_by_a_symlink_out_of_the_root(with_submodule: Path, tmp_path: Path) -> None:
    shutil.rmtree(with_submodule / "vendor/library")
    (with_submodule / "vendor/library").symlink_to(tmp_path / "library")
    listing = list_files(with_submodule)
    assert paths(listing) == [".gitmodules", "app.py"]
    assert reasons(listing) == {"vendor/library": "a submodule that is no directory here"}


@pytest.mark.parametrize("outer_git", [True, False])
def test_nested_repository_that_is_no_submodule(tmp_path: Path, run_git: Git, outer_git: bool) -> None:
    write(tmp_path, "a.py", "inner/b.py", "inner/c.log", "inner/deep/d.py")
    write(tmp_path, "inner/.gitignore", text="*.log\n")
    run_git(tmp_path / "inner", "init", "-q")
    run_git(tmp_path / "inner/deep", "init", "-q")
    if outer_git:
        run_git(tmp_path, "init", "-q")
    assert paths(list_files(tmp_path)) == ["a.py", "inner/.gitignore", "inner/b.py", "inner/deep/d.py"]
    assert paths(list_files(tmp_path, submodules=False)) == ["a.py"]


# Symlinks, and what is no file.


@pytest.mark.parametrize("with_git", [True, False])
def test_directory_symlink_to_its_own_parent_is_not_followed(
    tmp_path: Path, run_git: Git, with_git: bool
) -> None:
    write(tmp_path, "src/a.py")
    (tmp_path / "src/loop").symlink_to("..", target_is_directory=True)
    (tmp_path / "src/self").symlink_to("self")
    (tmp_path / "again").symlink_to("src", target_is_directory=True)
    if with_git:
        run_git(tmp_path, "init", "-q")
    listing = list_files(tmp_path)
    assert paths(listing) == ["src/a.py"]
    assert reasons(listing) == {
        "again": "a symlink to src, which is read itself",
        "src/loop": "a symlink to ., which is read itself",
        "src/self": "a symlink that leads nowhere",
    }


@pytest.mark.parametrize("with_git", [True, False])
def test_symlink_out_of_the_root_is_refused(tmp_path: Path, run_git: Git, with_git: bool) -> None:
    root = tmp_path / "root"
    write(root, "a.py")
    write(tmp_path, "secret.txt", "root-sibling/b.py")
    (root / "file").symlink_to("../secret.txt")
    (root / "folder").symlink_to(tmp_path, target_is_directory=True)
    (root / "same-prefix").symlink_to("../root-sibling/b.py")
    if with_git:
        run_git(root, "init", "-q")
        run_git(root, "add", ".")
    listing = list_files(root)
    assert paths(listing) == ["a.py"]
    refused = "a symlink that leads out of the repository; it is not followed"
    assert reasons(listing) == dict.fromkeys(["file", "folder", "same-prefix"], refused)


def test_symlink_inside_the_root_says_what_stands_for_it(repository: Path) -> None:
    write(repository, "src/a.py", "x.log")
    write(repository, ".gitignore", text="*.log\n")
    (repository / "alias.py").symlink_to("src/a.py")
    (repository / "to-ignored").symlink_to("x.log")
    (repository / "to-git").symlink_to(".git/config")
    (repository / "gone").symlink_to("nowhere")
    listing = list_files(repository)
    assert paths(listing) == [".gitignore", "src/a.py"]
    assert reasons(listing) == {
        "alias.py": "a symlink to src/a.py, which is read itself",
        "gone": "a symlink that leads nowhere",
        "to-git": "a symlink to .git/config, which is not read either",
        "to-ignored": "a symlink to x.log, which is not read either",
    }


def test_tracked_file_below_a_directory_that_became_a_symlink(
    repository: Path, tmp_path: Path, run_git: Git
) -> None:
    write(repository, "d/deep/passwords")
    run_git(repository, "add", ".")
    shutil.move(repository / "d", tmp_path / "outside")
    (repository / "d").symlink_to(tmp_path / "outside")
    listing = list_files(repository)
    assert listing.files == ()
    assert reasons(listing)["d/deep/passwords"] == "tracked below a directory that became a symlink"


def test_root_given_through_a_symlink(tmp_path: Path) -> None:
    write(tmp_path, "real/a.py")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    assert list_files(tmp_path / "link") == list_files(tmp_path / "real")


@needs_fifo
@pytest.mark.parametrize("with_git", [True, False])
def test_named_pipe_and_socket_are_never_opened(tmp_path: Path, run_git: Git, with_git: bool) -> None:
    write(tmp_path, "a.py", "pipe", "socket")
    if with_git:
        run_git(tmp_path, "init", "-q")
        run_git(tmp_path, "add", ".")
    for name in ("pipe", "socket"):
        (tmp_path / name).unlink()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        with contextlib.chdir(tmp_path):  # the path of a socket holds about 100 bytes
            server.bind("socket")
        listing = list_files(tmp_path)
    assert paths(listing) == ["a.py"]
    assert reasons(listing) == {
        "pipe": "a named pipe, not a regular file",
        "socket": "a socket, not a regular file",
    }


@pytest.mark.parametrize("with_git", [True, False])
def test_large_file_is_skipped_with_both_numbers(tmp_path: Path, run_git: Git, with_git: bool) -> None:
    write(tmp_path, "small.py")
    write(tmp_path, "large.py", text="#" * 2_001)
    if with_git:
        run_git(tmp_path, "init", "-q")
    listing = list_files(tmp_path, limits=Limits(max_file_bytes=2_000))
    assert paths(listing) == ["small.py"]
    assert listing.skipped == (Skipped("large.py", "2,001 bytes, more than the limit of 2,000"),)
    assert paths(list_files(tmp_path)) == ["large.py", "small.py"]


@pytest.mark.parametrize("with_git", [True, False])
def test_own_state_is_left_out_without_a_word(tmp_path: Path, run_git: Git, with_git: bool) -> None:
    if with_git:
        run_git(tmp_path, "init", "-q")
    write(tmp_path, "a.py")
    before = list_files(tmp_path, own=(".cicl", "out/pack.md"))
    write(tmp_path, ".cicl/index", "out/pack.md")
    assert list_files(tmp_path, own=(".cicl", "out/pack.md")) == before
    assert paths(list_files(tmp_path)) == ["a.py", "out/pack.md"]


@pytest.mark.skipif(os.name == "nt", reason="Windows allows no such path")
@pytest.mark.parametrize("mode", ["tracked", "untracked", "no git"])
def test_directories_nested_deeper_than_pythons_stack(tmp_path: Path, run_git: Git, mode: str) -> None:
    path = "d/" * 200 + "a.py"
    write(tmp_path, path)
    if mode != "no git":
        run_git(tmp_path, "init", "-q")
    if mode == "tracked":
        run_git(tmp_path, "add", ".")
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        listing = list_files(tmp_path)
    finally:
        sys.setrecursionlimit(usual)
    assert paths(listing) == [path]


# Without git.


def test_default_directories_are_reported_once(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "pyproject.toml", "build/lib/a.py", "pkg.egg-info/PKG-INFO", ".git/config")
    write(tmp_path, "node_modules/x/index.js", "node_modules/y/index.js", "web/node_modules/z/index.js")
    write(tmp_path, "environment/pyvenv.cfg", "environment/lib/b.py", "store/CACHEDIR.TAG", ".hg/store")
    write(tmp_path, "src/build/code.py", ".github/workflows/ci.yml")
    shutil.rmtree(tmp_path / ".git")
    listing = list_files(tmp_path)
    assert paths(listing) == [".github/workflows/ci.yml", "a.py", "pyproject.toml", "src/build/code.py"]
    assert listing.skipped == (
        Skipped("build", "build output"),
        Skipped("environment", "a virtual environment"),
        Skipped("node_modules", "installed packages"),
        Skipped("pkg.egg-info", "generated package metadata"),
        Skipped("store", "a cache"),
        Skipped("web/node_modules", "installed packages"),
    )


def test_default_directories_hold_for_untracked_files_of_a_repository(repository: Path, run_git: Git) -> None:
    write(
        repository,
        "package.json",
        "dist/tracked.js",
        "node_modules/x/a.js",
        "node_modules/x/b.js",
        "build/out.js",
    )
    run_git(repository, "add", "package.json", "dist")
    write(repository, "dist/new.js", "env/pyvenv.cfg", "env/lib/c.py")
    listing = list_files(repository)
    assert paths(listing) == ["dist/new.js", "dist/tracked.js", "package.json"]
    assert reasons(listing) == {
        "build": "build output",
        "env": "a virtual environment",
        "node_modules": "installed packages",
    }


def test_no_git_executable(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, "a.py", "b.log")
    write(repository, ".gitignore", text="*.log\n")
    monkeypatch.setenv("PATH", str(repository))
    listing = list_files(repository)
    assert paths(listing) == [".gitignore", "a.py", "b.log"]
    assert listing.notes == (
        "git is not installed; the files were listed without it",
        "git is not installed; `.gitignore` files were not honoured",
    )


def test_program_called_git_in_the_tree_is_not_run(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_trap(repository / "git", tmp_path / "marker")
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", os.pathsep.join(["", "."]))
    assert paths(list_files(repository)) == ["git"]
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("damage", ["empty .git", "corrupt index", "no HEAD", "gitdir that is gone"])
def test_broken_repository_is_walked_and_said_so(repository: Path, run_git: Git, damage: str) -> None:
    write(repository, "a.py", "inner/b.py")
    run_git(repository, "add", ".")
    if damage == "corrupt index":
        (repository / ".git/index").write_bytes(b"DIRC nonsense")
    elif damage == "no HEAD":
        (repository / ".git/HEAD").unlink()
    else:
        shutil.rmtree(repository / ".git")
        if damage == "empty .git":
            (repository / ".git").mkdir()
        else:
            (repository / ".git").write_text("gitdir: ../nowhere\n")
    listing = list_files(repository)
    assert paths(listing) == ["a.py", "inner/b.py"]
    assert len(listing.notes) == 1
    assert listing.notes[0].startswith("git failed: ")
    assert listing.notes[0].endswith("; the files were listed without it")


def test_broken_repository_below_a_sound_one_is_not_answered_for_by_it(
    repository: Path, run_git: Git
) -> None:
    write(repository, "outer.py", "inner/a.py", "inner/.git/rubbish")
    assert paths(list_files(repository / "inner")) == ["a.py"]


@needs_other_user
def test_repository_of_another_user_is_walked_and_said_so(repository: Path, run_git: Git) -> None:
    write(repository, "a.py", "b.log")
    write(repository, ".gitignore", text="*.log\n")
    for path in (repository, repository / ".git"):
        os.chown(path, 12345, 12345)
    listing = list_files(repository)
    assert paths(listing) == [".gitignore", "a.py"]
    assert "safe.directory" in listing.notes[0]


@needs_permissions
@pytest.mark.parametrize("with_git", [True, False])
def test_unreadable_directory_and_file(tmp_path: Path, run_git: Git, with_git: bool) -> None:
    write(tmp_path, "a.py", "closed/b.py")
    if with_git:
        run_git(tmp_path, "init", "-q")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "a.py").chmod(0)
    try:
        listing = list_files(tmp_path)
        assert paths(listing) == ["a.py"]
        assert read_file(tmp_path, listing.files[0]) == Skipped("a.py", "cannot be read: Permission denied")
        said = " ".join([*listing.notes, *map(str, listing.skipped)])
        assert "closed" in said
        assert "Permission denied" in said
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_directory_that_vanishes_during_the_walk_is_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "d/b.py")

    def is_own(path: str) -> bool:
        if path == "d":
            shutil.rmtree(tmp_path / "d")
        return False

    walk = plaintree.walk_tree(str(tmp_path), "", is_own)
    assert walk.paths == ["a.py"]
    assert walk.skipped == {"d": "cannot be read: No such file or directory"}


# Hostile repositories. A trap writes a marker when git runs it; at the end of the first two, plain git does.


def make_trap(path: Path, marker: Path) -> str:
    path.write_text(f"#!/bin/sh\ntouch '{marker}'\nexit 1\n")
    path.chmod(0o755)
    return path.as_posix()


@pytest.mark.skipif(os.name == "nt", reason="the trap is a shell script")
def test_hostile_fsmonitor_is_not_run(repository: Path, tmp_path: Path, run_git: Git) -> None:
    marker = tmp_path / "marker"
    write(repository, "a.py")
    run_git(repository, "add", ".")
    run_git(repository, "config", "core.fsmonitor", make_trap(tmp_path / "trap", marker))
    assert paths(list_files(repository)) == ["a.py"]
    assert git.is_ignored(str(repository), "a.py") is False
    assert not marker.exists()
    subprocess.run(["git", "ls-files", "--others"], cwd=repository, check=True, capture_output=True)
    assert marker.exists()


@pytest.mark.skipif(os.name == "nt", reason="the trap is a shell script")
def test_hostile_partial_clone_cannot_fetch_through_a_command(
    repository: Path, tmp_path: Path, run_git: Git
) -> None:
    marker = tmp_path / "marker"
    write(repository, "d/a.py", "d/.gitignore")
    run_git(repository, "add", ".")
    blob = run_git(repository, "rev-parse", ":d/.gitignore").strip()
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    run_git(repository, "update-index", "--skip-worktree", "d/.gitignore")
    (repository / "d/.gitignore").unlink()
    write(repository, "d/new.py")  # only for an untracked file does git look the ignore file up
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{make_trap(tmp_path / 'trap', marker)}",
        "protocol.ext.allow": "always",
    }.items():
        run_git(repository, "config", name, value)
    assert paths(list_files(repository)) == ["d/a.py", "d/new.py"]
    assert not marker.exists()
    others = ["git", "ls-files", "--others", "--exclude-standard"]
    subprocess.run(others, cwd=repository, check=False, capture_output=True)
    assert marker.exists()


@pytest.mark.skipif(os.name == "nt", reason="the trap is a shell script")
def test_hostile_hooks_pager_and_filters_are_not_run(repository: Path, tmp_path: Path, run_git: Git) -> None:
    marker = tmp_path / "marker"
    write(repository, "a.py")
    write(repository, ".gitattributes", text="* filter=trap\n")
    run_git(repository, "add", "a.py")
    (repository / "hooks").mkdir()
    trap = make_trap(repository / "hooks/post-index-change", marker)
    settings = ("core.pager", "pager.ls-files", "filter.trap.clean", "filter.trap.process", "alias.ls-files")
    for name in (*settings, "core.sshCommand", "core.editor", "credential.helper"):
        run_git(repository, "config", name, trap)
    run_git(repository, "config", "core.hooksPath", "hooks")
    os.utime(repository / "a.py", ns=(0, 0))
    assert "a.py" in paths(list_files(repository))
    assert not marker.exists()


def test_hostile_worktree_setting_does_not_move_the_root(
    repository: Path, tmp_path: Path, run_git: Git
) -> None:
    write(tmp_path, "outside.py")
    write(repository, "a.py")
    run_git(repository, "config", "core.worktree", tmp_path.as_posix())
    assert paths(list_files(repository)) == ["a.py"]


def test_listing_writes_nothing_into_the_repository(repository: Path, run_git: Git) -> None:
    write(repository, "a.py")
    run_git(repository, "add", ".")
    run_git(repository, "config", "core.untrackedCache", "true")
    os.utime(repository / "a.py", ns=(0, 0))

    def snapshot() -> dict[str, tuple[int, int]]:
        every = sorted((repository / ".git").rglob("*"))
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in every}

    before = snapshot()
    list_files(repository)
    assert snapshot() == before


def test_variables_of_a_surrounding_hook_are_not_followed(
    repository: Path, tmp_path: Path, run_git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "a.py")
    write(tmp_path, "hook/b.py")
    run_git(tmp_path / "hook", "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "hook/.git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "hook"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "hook/.git/index"))
    monkeypatch.setenv("GIT_PREFIX", "hook/")
    assert paths(list_files(repository)) == ["a.py"]


def test_users_own_ignore_file_is_honoured(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "a.py", "b.swp")
    write(tmp_path, "ignore", text="*.swp\n")
    write(tmp_path, "config", text=f"[core]\n\texcludesFile = {(tmp_path / 'ignore').as_posix()}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    assert paths(list_files(repository)) == ["a.py"]


@needs_fifo
def test_git_that_hangs_is_ended_and_said_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, "a.py")
    os.mkfifo(repository / ".gitignore")
    monkeypatch.setattr(git, "TIMEOUT_SECONDS", 0.4)
    listing = list_files(repository)
    assert paths(listing) == ["a.py"]
    assert reasons(listing) == {".gitignore": "a named pipe, not a regular file"}
    assert listing.notes == ("git gave no answer within 0 seconds; the files were listed without it",)


# Reading.


def test_file_is_read_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\r\n\x00\xff")
    (tmp_path / "empty").write_bytes(b"")
    listing = list_files(tmp_path)
    assert [read_file(listing.root, entry) for entry in listing.files] == [b"\r\n\x00\xff", b""]


def test_file_that_vanished_since_it_was_listed(tmp_path: Path) -> None:
    entry = FileEntry("gone.py", 1, 0, 0)
    assert read_file(tmp_path, entry) == Skipped("gone.py", "cannot be read: No such file or directory")


@needs_fifo
def test_file_replaced_by_a_pipe_a_link_or_something_large_since_it_was_listed(tmp_path: Path) -> None:
    write(tmp_path, "secret", text="s" * 11)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("secret")
    limits = Limits(max_file_bytes=10)
    found = [read_file(tmp_path, FileEntry(name, 1, 0, 0), limits) for name in ("pipe", "link", "secret")]
    assert found == [
        Skipped("pipe", "a named pipe, not a regular file"),
        Skipped("link", "became a symlink"),
        Skipped("secret", "11 bytes, more than the limit of 10"),
    ]
