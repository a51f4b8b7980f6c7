import pytest

from jaxeval.captions.ptb import ptb_tokenize

# Left: a caption. Right: what Stanford's PTBTokenizer (CoreNLP 3.4.1) and pycocoevalcap's removal list leave of it.
STANFORD = {
    "A dog barks, then a cat meows.": "a dog barks then a cat meows",
    "It's loud; we don't, can't and won't stop. I'll wait.": "it 's loud we do n't ca n't and wo n't stop i 'll wait",
    "The dogs' barks and John's 'quoted' \"words\"": "the dogs barks and john 's quoted words",
    "“Smart quotes” and it’s don’t": "smart quotes and it 's do n't",
    "High-pitched two-way inhales/exhales or far-off": "high-pitched two-way inhales/exhales or far-off",
    "high- and low-pitched, -high": "high and low-pitched high",
    "You cannot miss it, gonna stay": "you can not miss it gon na stay",
    "o'clock, ma'am, rock'n'roll, the '90s, 'tis": "o'clock ma'am rock 'n' roll the '90s 't is",
    "A 16 kHz tone at 44.1kHz, 440Hz, 50% of 1,000.5": "a 16 khz tone at 44.1 khz 440hz 50 % of 1,000.5",
    "a 3.5-second beep, 10:30, -5 dB, 1/2 of $5.50": "a 3.5-second beep 10:30 -5 db 1/2 of $ 5.50",
    "Mr. Smith vs. Mrs. Jones etc. at 5 p.m. in the U.S.": "mr. smith vs. mrs. jones etc. at 5 p.m. in the u.s.",
    "No. 5 says no. It is approx. right.": "no. 5 says no it is approx right",
    "The dog barks.The cat": "the dog barks.the cat",
    "It plays an A. Then I sing": "it plays an a. then i sing",
    "Birds (chirp) [music] {x}": "birds -lrb- chirp -rrb- -lsb- music -rsb- -lcb- x -rcb-",
    "wait... what?! no!! yes! - maybe—sure – ok": "wait what ?! no !! yes maybe sure ok",
    "AT&T and a&b play C#": "at&t and a & b play c#",
    "naïve café, Straße, Привет мир, こんにちは": "naïve café straße привет мир こんにちは",
    "two\nlines\tand   spaces": "two lines and spaces",
    "see https://a.org/b?c=d, mail a@b.com": "see https://a.org/b?c=d mail a@b.com",
    "a dog 😀 barks": "a dog barks",
    "... ! '' \" -- .": "",
    "": "",
}


@pytest.mark.parametrize(("caption", "tokens"), STANFORD.items())
def test_tokens_are_those_of_stanfords_tokenizer(caption, tokens):
    assert " ".join(ptb_tokenize(caption)) == tokens


def test_a_caption_of_ten_thousand_words_keeps_them_all():
    assert len(ptb_tokenize("it's loud. " * 5000)) == 15000
