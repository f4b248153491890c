import pytest

from orderless.estimators.schema import BundleSchema, match_features

SCHEMA = BundleSchema(3, ("CD3", "CD 16", "pSTAT5"), ("", "", "arcsinh"))
NAMELESS = BundleSchema(3)


def test_columns_in_another_order_are_put_in_order_by_name():
    match = match_features(SCHEMA, ["pSTAT5", "CD3", "CD 16"])
    assert match.order == (1, 2, 0)
    assert match.notes == ("columns are in another order than in training: they are put in order by name",)


def test_columns_that_the_model_does_not_know_are_left_out_with_a_note():
    match = match_features(SCHEMA, ["Time", "CD3", "CD 16", "pSTAT5", "DNA"])
    assert match.order == (1, 2, 3)
    assert match.notes == ("columns that the model does not know are left out: 'Time', 'DNA'",)


def test_columns_as_in_training_need_no_note():
    assert match_features(SCHEMA, ("CD3", "CD 16", "pSTAT5")) == ((0, 1, 2), ())


@pytest.mark.parametrize("close", ["cd16", "CD-16", "CD_16", " CD 16"])
def test_a_missing_column_is_named_with_the_one_that_may_be_meant(close):
    with pytest.raises(ValueError, match=rf"lack 1 of the 3 features .*'CD 16' \(is it '{close}'\?\)\. .*the data have 'CD3'"):
        match_features(SCHEMA, ["CD3", close, "pSTAT5"])


def test_a_missing_column_with_no_like_is_named_alone():
    with pytest.raises(ValueError, match=r"lack 2 of the 3 .*: 'CD 16', 'pSTAT5'\. Rename"):
        match_features(SCHEMA, ["CD3", "Time"])


def test_many_missing_columns_make_one_short_line():
    wide = BundleSchema(200, tuple(f"gene {i:03d} of ours" for i in range(200)))
    with pytest.raises(ValueError, match="and 192 more") as caught:
        match_features(wide, ["nothing"])
    assert len(str(caught.value)) < 600
    assert "\n" not in str(caught.value)


def test_a_wanted_column_that_is_there_twice_is_refused():
    with pytest.raises(ValueError, match="more than one column of the name 'CD3'"):
        match_features(SCHEMA, ["CD3", "CD 16", "pSTAT5", "CD3"])
    assert match_features(SCHEMA, ["x", "x", "CD3", "CD 16", "pSTAT5"]).order == (2, 3, 4)


def test_another_unit_is_refused_and_an_unknown_one_is_not():
    names = ["pSTAT5", "CD3", "CD 16"]
    assert match_features(SCHEMA, names, units=["arcsinh", "x", ""]).order == (1, 2, 0)
    assert match_features(SCHEMA, names, units=["", "", ""]).order == (1, 2, 0)
    with pytest.raises(ValueError, match="'pSTAT5' in 'logicle' instead of 'arcsinh'"):
        match_features(SCHEMA, names, units=["logicle", "", ""])


@pytest.mark.parametrize(("schema", "names"), [(SCHEMA, 4), (NAMELESS, 4), (NAMELESS, ["a", "b"])])
def test_without_names_another_number_of_columns_is_refused(schema, names):
    with pytest.raises(ValueError, match=r"trained on 3 features.*columns cannot be told apart"):
        match_features(schema, names)


@pytest.mark.parametrize(("schema", "names", "notes"), [(SCHEMA, 3, 1), (NAMELESS, ["a", "b", "c"], 1), (NAMELESS, 3, 0)])
def test_without_names_on_one_side_the_order_is_trusted_and_said(schema, names, notes):
    match = match_features(schema, names)
    assert match.order == (0, 1, 2)
    assert len(match.notes) == notes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ("a", "b")}, "features must be 3 names, got 'a', 'b'"),
        ({"features": ("a", "b", "a")}, "several of 'a'"),
        ({"features": ("a", "b", "c"), "units": ("m",)}, "units must be 3 texts"),
        ({"units": ("m", "", "")}, "units need the names"),
        ({"num_covariates": 1, "covariates": ("age", "sex")}, "covariates must be 1 names"),
    ],
)
def test_a_schema_that_does_not_fit_itself_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BundleSchema(3, **arguments)
