from jaxeval.reports.tables import Row, latex_table, markdown_table, text_table

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


def test_latex_has_the_rules_of_booktabs_and_escapes_what_is_special():
    rows: list[Row] = [{"a_b": "50 % & [more]", "x": -0.25, "y": None}, {"a_b": r"\cmd~^{1}", "x": 1.0, "y": None}]
    assert latex_table(rows, ["a_b", "x", "y"]).splitlines() == [
        r"\begin{tabular}{lrl}",
        r"\toprule",
        r"a\_b & x & y \\",
        r"\midrule",
        r"50 \% \& {[}more] & $-$0.2500 & -- \\",
        r"\textbackslash{}cmd\textasciitilde{}\textasciicircum{}\{1\} & 1.0000 & -- \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
