from jaxeval.reports.tables import Row, markdown_table, text_table

ROWS: list[Row] = [{"model": "a|b", "bleu_1": 0.123456, "items": 7}, {"model": "犬", "bleu_1": None, "items": 12}]


def test_terminal_columns_line_up_and_numbers_stand_to_the_right():
    assert text_table(ROWS, ["model", "bleu_1", "items"]).splitlines() == [
        "model  bleu_1  items",
        "────────────────────",
        "a|b    0.1235      7",
        "犬          –     12",
    ]


def test_markdown_escapes_the_bar_that_would_split_a_cell():
    assert markdown_table(ROWS[:1], ["model", "bleu_1"]) == "| model | bleu_1 |\n| --- | ---: |\n| a\\|b | 0.1235 |\n"
