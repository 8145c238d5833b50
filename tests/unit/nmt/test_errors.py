from nmt.errors import one_line


def test_a_message_keeps_what_can_be_read_and_shows_what_cannot() -> None:
    assert one_line("Größe  3\n in \x1b[2J\u202e\ud800") == r"Größe  3  in \x1b[2J\u202e\ud800"


def test_a_long_message_keeps_its_ends() -> None:
    assert one_line("a" * 5_000 + "b") == f"{'a' * 500} … {'a' * 499}b"
