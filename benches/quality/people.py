"""What people type to find venues, and what they expect. Not how well a search does. Callers: search_quality.py.

A kind of query is a function: it draws a listing and answers a text, and the ids of the listings that are right. For a
query that names a venue one of them among the first ten is enough; for others all of the first ten should be right.
"""

import random
import re
import unicodedata

CODES = {
    "Alaska": "AK", "Arkansas": "AR", "California": "CA", "Colorado": "CO", "Connecticut": "CT", "District of Columbia": "DC", "Florida": "FL",
    "Georgia": "GA", "Guam": "GU", "Hawaii": "HI", "Idaho": "ID", "Illinois": "IL", "Indiana": "IN", "Kansas": "KS", "Louisiana": "LA", "Maine": "ME",
    "Massachusetts": "MA", "Michigan": "MI", "Minnesota": "MN", "Mississippi": "MS", "Missouri": "MO", "Montana": "MT", "Nebraska": "NE",
    "Nevada": "NV", "New Hampshire": "NH", "New Jersey": "NJ", "New Mexico": "NM", "New York": "NY", "North Carolina": "NC", "North Dakota": "ND",
    "Ohio": "OH", "Oklahoma": "OK", "Oregon": "OR", "Pennsylvania": "PA", "Puerto Rico": "PR", "Rhode Island": "RI", "South Carolina": "SC",
    "South Dakota": "SD", "Tennessee": "TN", "Texas": "TX", "Utah": "UT", "Vermont": "VT", "Virginia": "VA", "Washington": "WA",
    "West Virginia": "WV", "Wisconsin": "WI", "Alabama": "AL", "Arizona": "AZ", "Delaware": "DE", "Iowa": "IA", "Kentucky": "KY", "Maryland": "MD",
    "Wyoming": "WY",
}
KEYS = ["qwertyuiop", "asdfghjkl", "zxcvbnm"]
BESIDE = {key: row[max(0, at - 1) : at] + row[at + 1 : at + 2] for row in KEYS for at, key in enumerate(row)}
LETTERS = {"ł": "l", "ø": "o", "þ": "th", "ð": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ı": "i", "đ": "d"}
LONG = {"st": "saint", "mt": "mount", "ft": "fort"}
# Words for a venue that people put in the plural.
SINGULAR = ["arena", "gym", "gymnasium", "stadium", "pool", "rink", "club", "course", "field", "complex", "ballpark", "speedway", "skatepark"]
# Words that people add, and no venue has.
TOO_MUCH = ["tickets", "parking", "directions", "phone", "opening hours", "reviews", "website", "prices", "schedule"]


def plain(text):
    """A text as a keyboard without accents writes it."""
    bare = lambda letter: "".join(part for part in unicodedata.normalize("NFKD", letter) if not unicodedata.combining(part))
    return "".join(letter if is_east_asian(letter) else LETTERS.get(letter, bare(letter)) for letter in text.lower())


def hasty(text):
    """The same without signs: `U.S.` is `us`, `O'Neill` is `oneill`."""
    text = re.sub(r"['’‘ʻ`]", "", plain(text))
    text = re.sub(r"\b(?:\w\.){2,}", lambda run: run[0].replace(".", ""), text)
    return " ".join(re.findall(r"\w+", text))


def is_east_asian(letter):
    return any(unicodedata.name(letter, "").startswith(script) for script in ("CJK", "HIRAGANA", "KATAKANA", "HANGUL"))


class People:
    """Queries about a data set, the same in every run. `sports`: names by slug."""

    def __init__(self, name, listings, sports):
        self.dice, self.listings, self.sports = random.Random(f"people of {name}"), listings, sports
        self.hasty = {listing["id"]: hasty(listing["name"]) for listing in listings}
        self.names = {}
        for number, name in self.hasty.items():
            self.names.setdefault(name, set()).add(number)
        self.of_name = lambda listing: self.names[self.hasty[listing["id"]]]
        self.begun = {" ".join(name.split()[:count]) for name in self.names for count in range(1, len(name.split()))}

    def where(self, **wanted):
        return {listing["id"] for listing in self.listings if all(listing[field] == value for field, value in wanted.items())}

    def with_words(self, city, words):
        """The listings of a city whose name has some words."""
        return {one["id"] for one in self.listings if one["city"] == city and words <= set(self.hasty[one["id"]].split())}

    def queries(self, share=1.0):
        """Kind, whether it names a venue, and (text, right ids) each; a kind that the data has no venue for is left out."""
        for kind, (draw, is_venue, count) in KINDS.items():
            found, wanted = {}, max(1, round(count * share))
            for _ in range(60 * count):
                text, right = draw(self, self.dice.choice(self.listings)) or (None, None)
                if text and right and len(text) <= 200:
                    found.setdefault(text, right)
                if len(found) == wanted:
                    break
            if found:
                yield kind, is_venue, list(found.items())

    def exact(self, listing):
        return listing["name"], self.of_name(listing)

    def exact_of_longer(self, listing):
        return (listing["name"], self.of_name(listing)) if self.hasty[listing["id"]] in self.begun else None

    def name_in_city(self, listing):
        right = self.of_name(listing) & self.where(city=listing["city"])
        return f"{listing['name']} in {listing['city']}", right

    def name_city_code(self, listing):
        right = self.of_name(listing) & self.where(city=listing["city"], state=listing["state"])
        return f"{listing['name']} {listing['city']} {CODES[listing['state']]}", right

    def sport_city_state(self, listing):
        state = self.dice.choice([listing["state"], CODES[listing["state"]]])
        right = self.where(city=listing["city"], state=listing["state"], sport=listing["sport"])
        return f"{self.sports[listing['sport']]} {listing['city']} {state}".lower(), right

    def one_error(self, listing):
        text = plain(listing["name"])
        places = [at for at, letter in enumerate(text) if letter in BESIDE]
        if not places:
            return None
        at, way = self.dice.choice(places), self.dice.randrange(4)
        after = text[at + 1 :]
        if way == 0:
            wrong = text[:at] + after
        elif way == 1:
            wrong = text[:at] + text[at] + text[at:]
        elif way == 2:
            wrong = text[:at] + self.dice.choice(BESIDE[text[at]]) + after
        else:
            wrong = text[:at] + after[:1] + text[at] + after[1:]
        return (wrong, self.of_name(listing)) if hasty(wrong) != hasty(text) else None

    def city_code(self, listing):
        return f"{listing['city']}, {CODES[listing['state']]}".lower(), self.where(city=listing["city"], state=listing["state"])

    def sport_in_state(self, listing):
        right = self.where(state=listing["state"], sport=listing["sport"])
        # Some cities are called like a state.
        right |= self.where(city=listing["state"], sport=listing["sport"])
        return f"{self.sports[listing['sport']]} in {listing['state']}".lower(), right

    def hasty_name(self, listing):
        text = hasty(listing["name"])
        return (text, self.of_name(listing)) if text != listing["name"].lower() else None

    def long_city(self, listing):
        text = " ".join(LONG.get(word, word) for word in hasty(listing["city"]).split())
        return (text, self.where(city=listing["city"])) if text != listing["city"].lower() else None

    def long_name(self, listing):
        words = self.hasty[listing["id"]].split()
        other = [LONG.get(word, {"saint": "st", "mount": "mt", "fort": "ft"}.get(word, word)) for word in words]
        return (" ".join(other), self.of_name(listing)) if words != other else None

    def unfinished(self, listing):
        text = plain(listing["name"])
        *_, last = text.split()
        if len(last) < 4:
            return None
        text = text[: len(text) - self.dice.randint(1, len(last) - 3)]
        begin = hasty(text)
        return text, {number for name, ids in self.names.items() if name.startswith(begin) for number in ids}

    def plural(self, listing):
        word = self.hasty[listing["id"]].split()[-1]
        if word not in SINGULAR:
            return None
        forms = {word, f"{word}s"}
        sports = {slug for slug, shown in self.sports.items() if forms & set(hasty(shown).split())}
        right = {one["id"] for one in self.listings if one["city"] == listing["city"] and one["sport"] in sports}
        right |= self.with_words(listing["city"], {word}) | self.with_words(listing["city"], {f"{word}s"})
        return f"{word}{'es' if word[-1] == 'x' else 's'} in {listing['city']}", right

    def part_of_east_asian(self, listing):
        runs = [run for run in re.findall(r"\w+", listing["name"]) if len(run) > 2 and all(map(is_east_asian, run))]
        if not runs:
            return None
        run = self.dice.choice(runs)
        start = self.dice.randrange(len(run) - 1)
        part = run[start : start + self.dice.randint(2, 3)]
        return part, {other["id"] for other in self.listings if part in other["name"]}

    def too_much(self, listing):
        return f"{listing['name']} {self.dice.choice(TOO_MUCH)}", self.of_name(listing)

    def shorter(self, listing):
        words = self.hasty[listing["id"]].split()
        if len(words) < 3:
            return None
        words.remove(self.dice.choice(words))
        return f"{' '.join(words)} {plain(listing['city'])}", self.with_words(listing["city"], set(words))


# How each draws, whether one venue is meant, and how many queries there are: 300 in all.
KINDS = {
    "exact name": (People.exact, True, 25),
    "exact name, others begin with it": (People.exact_of_longer, True, 20),
    "name in city": (People.name_in_city, True, 30),
    "name, city, postal code": (People.name_city_code, True, 30),
    "sport, city, state": (People.sport_city_state, False, 25),
    "one typing error in the name": (People.one_error, True, 40),
    "city, postal code": (People.city_code, False, 15),
    "sport in state": (People.sport_in_state, False, 20),
    "name without signs and accents": (People.hasty_name, True, 20),
    "`saint` for `St.` and the like: cities": (People.long_city, False, 5),
    "`saint` for `St.` and the like: names": (People.long_name, True, 10),
    "unfinished name": (People.unfinished, True, 15),
    "plural in city": (People.plural, False, 10),
    "part of a name in Han, Kana, Hangul": (People.part_of_east_asian, False, 10),
    "name and a word too much": (People.too_much, True, 10),
    "name without one word, city": (People.shorter, True, 15),
}
