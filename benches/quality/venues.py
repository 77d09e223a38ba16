"""Made-up data sets of venues with names as they are in the United States. Not the queries; the same in every run.

A data set is a list of listings as the API sends them, and the names that its index of sports shows. Each has words, cities and
habits of names of its own, so that a search is not made for one of them. Callers: search_quality.py.
"""

import random

# Slug, the name that the index shows, kinds of venues.
SPORTS = {
    "baseball": ("Baseball", ["Ballpark", "Baseball Field", "Diamond"]),
    "basketball": ("Basketball", ["Arena", "Gymnasium", "Basketball Courts", "Fieldhouse"]),
    "football": ("American Football", ["Stadium", "Football Field", "Bowl"]),
    "golf": ("Golf", ["Golf Course", "Golf Club", "Country Club", "Golf Links"]),
    "tennis": ("Tennis", ["Tennis Center", "Tennis Courts", "Racquet Club"]),
    "ice-hockey": ("Ice Hockey", ["Ice Arena", "Ice Rink", "Ice Center"]),
    "pickleball": ("Pickleball", ["Pickleball Courts", "Pickleball Club"]),
    "fitness": ("Gyms & Fitness", ["Gym", "Fitness Center", "Athletic Club"]),
    "swimming": ("Swimming", ["Pool", "Aquatic Center", "Natatorium"]),
    "soccer": ("Soccer", ["Soccer Complex", "Soccer Fields", "Futsal Center"]),
    "disc-golf": ("Disc Golf", ["Disc Golf Course"]),
    "bowling": ("Bowling", ["Lanes", "Bowl", "Bowling Center"]),
    "climbing": ("Rock Climbing", ["Climbing Gym", "Boulders"]),
    "racing": ("Motorsport", ["Speedway", "Raceway", "Dragway"]),
    "softball": ("Softball", ["Softball Complex", "Softball Field"]),
    "skateboarding": ("Skateboarding", ["Skatepark", "Skate Plaza"]),
}

NATION = {
    "cities": [
        ("Boston", "Massachusetts"), ("Springfield", "Massachusetts"), ("Chicago", "Illinois"), ("Springfield", "Illinois"),
        ("Minneapolis", "Minnesota"), ("St. Paul", "Minnesota"), ("St. Cloud", "Minnesota"), ("Washington", "District of Columbia"),
        ("New York", "New York"), ("Buffalo", "New York"), ("Los Angeles", "California"), ("San Diego", "California"),
        ("Pasadena", "California"), ("Austin", "Texas"), ("Fort Worth", "Texas"), ("Arlington", "Texas"), ("Arlington", "Virginia"),
        ("Richmond", "Virginia"), ("Richmond", "California"), ("Portland", "Oregon"), ("Portland", "Maine"), ("Columbus", "Ohio"),
        ("Columbus", "Georgia"), ("Columbus", "Indiana"), ("Indianapolis", "Indiana"), ("Fort Wayne", "Indiana"),
        ("St. Louis", "Missouri"), ("Kansas City", "Missouri"), ("Kansas City", "Kansas"), ("Green Bay", "Wisconsin"),
        ("Madison", "Wisconsin"), ("Ann Arbor", "Michigan"), ("Augusta", "Georgia"), ("Atlanta", "Georgia"), ("Miami", "Florida"),
        ("St. Petersburg", "Florida"), ("Seattle", "Washington"), ("Spokane", "Washington"), ("Denver", "Colorado"),
        ("Salt Lake City", "Utah"), ("Oklahoma City", "Oklahoma"), ("Baton Rouge", "Louisiana"), ("Mount Pleasant", "South Carolina"),
        ("Mt. Vernon", "Washington"), ("Coeur d'Alene", "Idaho"), ("Winston-Salem", "North Carolina"), ("O'Fallon", "Missouri"),
    ],
    "known": [
        ("Fenway Park", "Boston", "baseball"), ("TD Garden", "Boston", "ice-hockey"), ("Wrigley Field", "Chicago", "baseball"),
        ("Soldier Field", "Chicago", "football"), ("U.S. Bank Stadium", "Minneapolis", "football"),
        ("Target Field", "Minneapolis", "baseball"), ("Xcel Energy Center", "St. Paul", "ice-hockey"),
        ("Nationals Park", "Washington", "baseball"), ("Madison Square Garden", "New York", "basketball"),
        ("Yankee Stadium", "New York", "baseball"), ("Rose Bowl", "Pasadena", "football"), ("Petco Park", "San Diego", "baseball"),
        ("Dodger Stadium", "Los Angeles", "baseball"), ("Crypto.com Arena", "Los Angeles", "basketball"),
        ("AT&T Stadium", "Arlington", "football"), ("Globe Life Field", "Arlington", "baseball"),
        ("Lambeau Field", "Green Bay", "football"), ("Camp Randall Stadium", "Madison", "football"),
        ("Michigan Stadium", "Ann Arbor", "football"), ("Augusta National Golf Club", "Augusta", "golf"),
        ("Truist Park", "Atlanta", "baseball"), ("loanDepot park", "Miami", "baseball"), ("T-Mobile Park", "Seattle", "baseball"),
        ("Climate Pledge Arena", "Seattle", "ice-hockey"), ("Coors Field", "Denver", "baseball"), ("Ball Arena", "Denver", "basketball"),
        ("Tiger Stadium", "Baton Rouge", "football"), ("Busch Stadium", "St. Louis", "baseball"),
        ("Arrowhead Stadium", "Kansas City", "football"), ("Lucas Oil Stadium", "Indianapolis", "football"),
        ("Moda Center", "Portland", "basketball"), ("Paycom Center", "Oklahoma City", "basketball"), ("Circuit of The Americas", "Austin", "racing"),
    ],
    "first": [
        "Lincoln", "Riverside", "Veterans", "Maple Grove", "Oak Hill", "Cedar Ridge", "Lakeshore", "Highland", "Jefferson", "Kennedy",
        "Roosevelt", "Washington", "Prospect", "Sunnyside", "Woodlawn", "Meadowbrook", "Fox Run", "Stone Creek", "Eagle Point",
        "Willow Bend", "Franklin", "Garfield", "Humboldt", "Forest", "Pine Valley", "Silver Lake", "Mission", "Bay", "Harbor View",
        "Northgate", "Southside", "West End", "Capitol", "University", "Pioneer", "Heritage", "Liberty", "Marshall", "Sherman", "Thompson",
    ],
    "surnames": ["Johnson", "McKinley", "O'Connor", "Schmidt", "Alvarez", "Petersen", "Reynolds", "Whitaker", "Dubois", "Kowalski"],
    "patterns": ["{first} {kind}"] * 5 + [
        "{first} Park", "{first} Park {kind}", "{first} Park {kind}", "{surname} Memorial {kind}", "{city} {kind}", "{city} Community Center",
        "{city} Family YMCA", "YMCA of {city}", "{first} Y.M.C.A.", "{surname} Family YMCA", "{city} High School {kind}", "{first} {kind} #{n}",
        "{nth} Street {kind}", "St. {saint} {kind}", "Mt. {first} {kind}", "Ft. {surname} {kind}", "{first} & {surname} {kind}", "Planet Fitness",
        "24 Hour Fitness", "CrossFit {first}", "{surname}'s {kind}", "{first} {kind} at {surname} Park", "The {first} {kind}",
    ],
    "saints": ["Mary's", "Joseph's", "Thomas", "Anthony", "Patrick's"],
    "extra": ["Tennis Courts", "Plaza", "Annex", "Practice Facility", "Team Store", "Visitors Clubhouse", "Garage", "Batting Cages", "East", "II"],
}

TEXAS = {
    "cities": [(city, "Texas") for city in (
        "Houston", "San Antonio", "Dallas", "Austin", "Fort Worth", "El Paso", "Arlington", "Corpus Christi", "Plano", "Lubbock", "Laredo",
        "Irving", "Garland", "Frisco", "McKinney", "Amarillo", "Grand Prairie", "Brownsville", "Killeen", "Pasadena", "Mesquite", "McAllen",
        "Waco", "Denton", "Midland", "Odessa", "Round Rock", "San Ángelo", "New Braunfels", "Del Rio", "Paris", "Marfa", "Italy", "Washington",
        "Dripping Springs", "Mount Pleasant", "St. Hedwig", "D'Hanis", "The Woodlands", "Fort Stockton")],
    "known": [
        ("Kyle Field", "Waco", "football"), ("Cotton Bowl", "Dallas", "football"), ("Minute Maid Park", "Houston", "baseball"),
        ("Toyota Center", "Houston", "basketball"), ("NRG Stadium", "Houston", "football"), ("Alamodome", "San Antonio", "football"),
        ("Frost Bank Center", "San Antonio", "basketball"), ("Colonial Country Club", "Fort Worth", "golf"),
        ("Dr Pepper Ballpark", "Frisco", "baseball"), ("Zilker Park", "Austin", "soccer"), ("Barton Springs Pool", "Austin", "swimming"),
        ("Moody Center", "Austin", "basketball"), ("Sun Bowl", "El Paso", "football"), ("H-E-B Center", "Round Rock", "ice-hockey"),
    ],
    "first": [
        "Lone Star", "Mesquite", "Bluebonnet", "Longhorn", "Rio Grande", "Brazos", "Pecan Valley", "Comanche", "Bandera", "Alamo", "Cypress",
        "Live Oak", "San Jacinto", "Cowboy", "Ranchland", "Palo Duro", "Hill Country", "Gulf Coast", "Caprock", "Buffalo Creek",
        "Tierra Verde", "Cañón Seco", "Peña Blanca", "Río Frío", "Señora Ruiz", "José Martí", "Los Álamos", "El Niño", "La Frontera",
        "Sabine", "Trinity", "Neches", "Wichita", "Quail Creek", "Deer Run", "Texas Star", "Golf Crest", "Tennison", "Stadium Drive", "Park Lane",
    ],
    "surnames": ["Houston", "Travis", "Bowie", "Crockett", "Núñez", "García", "Nguyen", "Patel", "McAllister", "Zaragoza"],
    "patterns": ["{first} {kind}"] * 6 + ["{first} Golf Club"] * 2 + ["{city} ISD {kind}"] * 2 + [
        "{city} Municipal {kind}", "{surname} Middle School {kind}", "{surname} High School {kind}", "{first} Ranch {kind}",
        "Memorial {kind}", "Legacy {kind}", "Field {n} at {first} Park", "Court {n}", "{n} South {kind}", "FM {road} {kind}",
        "Gold's Gym {first}", "Club at {first}", "{first} {kind} of {city}", "TX {first} {kind}", "Texas {kind}", "{surname}-{first} {kind}",
    ],
    "saints": ["Mark's", "Edward's"],
    "extra": ["North", "South Course", "Driving Range", "Practice Fields", "Clubhouse", "Tennis Courts", "Annex", "Pro Shop"],
}

ISLANDS = {
    "cities": [
        ("Honolulu", "Hawaii"), ("Kāne‘ohe", "Hawaii"), ("Līhu‘e", "Hawaii"), ("Kailua-Kona", "Hawaii"), ("‘Ewa Beach", "Hawaii"),
        ("Wai`anae", "Hawaii"), ("Hilo", "Hawaii"), ("San José", "California"), ("San Francisco", "California"), ("Oakland", "California"),
        ("Los Angeles", "California"), ("New York", "New York"), ("Flushing", "New York"), ("Brooklyn", "New York"), ("Utqiaġvik", "Alaska"),
        ("Anchorage", "Alaska"), ("Española", "New Mexico"), ("Cañon City", "Colorado"), ("Mayagüez", "Puerto Rico"), ("San Juan", "Puerto Rico"),
        ("Hagåtña", "Guam"), ("New Orleans", "Louisiana"), ("Newark", "New Jersey"), ("Seattle", "Washington"),
    ],
    "known": [
        ("Aloha Stadium", "Honolulu", "football"), ("Bobby Benson Park of O`ahu", "Honolulu", "soccer"), ("Oracle Park", "San Francisco", "baseball"),
        ("Chase Center", "San Francisco", "basketball"), ("Citi Field", "Flushing", "baseball"), ("Barclays Center", "Brooklyn", "basketball"),
        ("Hiram Bithorn Stadium", "San Juan", "baseball"), ("Y.M.C.A. of O`ahu", "Honolulu", "fitness"), ("Caesars Superdome", "New Orleans", "football"),
        ("Ala Moana Tennis Courts", "Honolulu", "tennis"), ("Waiʻalae Country Club", "Honolulu", "golf"), ("Kapi‘olani Park", "Honolulu", "soccer"),
    ],
    "first": [
        "Kaʻahumanu", "Kalākaua", "Mauna Loa", "Haleʻiwa", "Pu`u Pua", "Kīlauea", "東京", "大阪 Garden", "富士見台", "中山紀念", "龍門", "北京路", "台灣會館",
        "さくら", "ひまわり", "スポーツプラザ", "태권도", "한마음", "서울", "Golden Gate", "Bayfront", "Café Müller", "Łódź Friendship", "Straße", "Søren", "Þór",
        "Señor Peña", "Niño–Díaz", "Montaña", "Île de France", "Fleur-de-Lis", "Zoë", "Dvořák", "İstanbul", "Ångström", "O’Neill", "Ocean View", "Palm",
    ],
    "surnames": ["Kawānanakoa", "Nakamura", "Yamamoto", "陳", "李小龍", "김연아", "Muñoz", "Ibáñez", "D’Angelo", "McNally"],
    "patterns": ["{first} {kind}"] * 5 + [
        "{first} 体育館", "{first} 體育中心", "{first}テニスコート", "{first} 체육관", "{surname} {kind}", "{surname} Memorial {kind}", "{city} {kind}",
        "{first} Beach Park", "{first} {kind} No. {n}", "{surname} Dojo", "{first} Rec. Center", "{first} {kind} ({city})", "{kind} {first}",
    ],
    "saints": ["Damien", "Ignatius"],
    "extra": ["Annex", "Makai", "Mauka", "Courts", "Field 2", "新館"],
}

LAKES = {
    "cities": [
        ("Fond du Lac", "Wisconsin"), ("La Crosse", "Wisconsin"), ("Milwaukee", "Wisconsin"), ("Sault Ste. Marie", "Michigan"), ("Detroit", "Michigan"),
        ("Grand Rapids", "Michigan"), ("Grand Rapids", "Minnesota"), ("Duluth", "Minnesota"), ("Bloomington", "Minnesota"), ("Bloomington", "Indiana"),
        ("Bloomington", "Illinois"), ("Peoria", "Illinois"), ("Terre Haute", "Indiana"), ("South Bend", "Indiana"), ("Cleveland", "Ohio"),
        ("Oxford", "Ohio"), ("Oxford", "Mississippi"), ("Jackson", "Mississippi"), ("Jackson", "Tennessee"), ("Nashville", "Tennessee"),
        ("Charleston", "South Carolina"), ("Charleston", "West Virginia"), ("Wheeling", "West Virginia"), ("Bangor", "Maine"), ("Manchester", "New Hampshire"),
        ("Burlington", "Vermont"), ("Providence", "Rhode Island"), ("New Haven", "Connecticut"), ("Hartford", "Connecticut"), ("Trenton", "New Jersey"),
        ("Las Vegas", "Nevada"), ("Las Vegas", "New Mexico"), ("Santa Fe", "New Mexico"), ("Boise", "Idaho"), ("Moscow", "Idaho"), ("Missoula", "Montana"),
        ("Rapid City", "South Dakota"), ("Fargo", "North Dakota"), ("Lincoln", "Nebraska"), ("Ft. Smith", "Arkansas"), ("Fort Collins", "Colorado"),
        ("Mt. Airy", "North Carolina"), ("St. Albans", "Vermont"), ("D'Iberville", "Mississippi"), ("Wilkes-Barre", "Pennsylvania"),
    ],
    "known": [
        ("Comerica Park", "Detroit", "baseball"), ("Ford Field", "Detroit", "football"), ("Progressive Field", "Cleveland", "baseball"),
        ("Bridgestone Arena", "Nashville", "ice-hockey"), ("Notre Dame Stadium", "South Bend", "football"), ("Yale Bowl", "New Haven", "football"),
        ("Assembly Hall", "Bloomington", "basketball"), ("Fargodome", "Fargo", "football"), ("Memorial Stadium", "Lincoln", "football"),
        ("T-Mobile Arena", "Las Vegas", "ice-hockey"), ("American Family Field", "Milwaukee", "baseball"), ("AMSOIL Arena", "Duluth", "ice-hockey"),
        ("J. Wayne Reitz Court", "Jackson", "basketball"), ("WVU Coliseum", "Wheeling", "basketball"),
    ],
    "first": [
        "Wolverine", "Great Lakes", "Birchwood", "Tamarack", "Copper Country", "Iron Range", "Timberline", "Granite", "Green Mountain", "Blackstone",
        "Housatonic", "Merrimack", "Penobscot", "Allegheny", "Monongahela", "Appalachian", "Magnolia", "Delta", "Bluegrass", "Smoky", "Badlands",
        "Prairie Dog", "Big Sky", "Bitterroot", "Sagebrush", "High Desert", "Sangre de Cristo", "Turquoise", "Old Mill", "Covered Bridge", "Town",
        "County", "Northern", "Central", "Valley", "Hillside", "Twin Pines", "Three Rivers", "Four Seasons", "Lac qui Parle",
    ],
    "surnames": ["Vandenberg", "Kaczynski", "Lindqvist", "O'Malley", "MacDonald", "Fitzgerald", "DeWitt", "St. Clair", "Böhm", "Beaulieu"],
    "patterns": ["{first} {kind}"] * 5 + [
        "{first} State University {kind}", "{first} College {kind}", "University of {first} {kind}", "{surname} {kind}", "{surname} {kind}", "{surname} Jr. {kind}",
        "{city} Parks & Rec {kind}", "{city} YWCA", "{first} YMCA", "Boys & Girls Club of {city}", "J.F.K. {kind}", "{nth} Avenue {kind}", "V.F.W. Post {road} {kind}",
        "{first} Township {kind}", "St. {saint}'s {kind}", "Mount {surname} {kind}", "Fort {first} {kind}", "{first} {kind} {n}", "{first}/{surname} {kind}",
    ],
    "saints": ["Olaf", "Norbert", "Bonaventure"],
    "extra": ["Indoor Facility", "North", "Weight Room", "II", "Little League Complex", "Concourse", "West Lot", "Museum"],
}

# Looked at last: its figures say whether a search is made for the others.
COAST = {
    "cities": [
        ("Mobile", "Alabama"), ("Fairhope", "Alabama"), ("Tuscaloosa", "Alabama"), ("Phoenix", "Arizona"), ("Lake Havasu City", "Arizona"),
        ("Little Rock", "Arkansas"), ("Hot Springs", "Arkansas"), ("Santa Bárbara", "California"), ("Half Moon Bay", "California"), ("La Cañada", "California"),
        ("Wilmington", "Delaware"), ("Wilmington", "North Carolina"), ("Key West", "Florida"), ("Port St. Lucie", "Florida"), ("Ft. Myers", "Florida"),
        ("Savannah", "Georgia"), ("Des Moines", "Iowa"), ("Iowa City", "Iowa"), ("Louisville", "Kentucky"), ("Fort Knox", "Kentucky"),
        ("Lafayette", "Louisiana"), ("Baltimore", "Maryland"), ("Ocean City", "Maryland"), ("Ocean City", "New Jersey"), ("Provincetown", "Massachusetts"),
        ("Biloxi", "Mississippi"), ("Nags Head", "North Carolina"), ("Newport", "Rhode Island"), ("Newport", "Oregon"), ("Coos Bay", "Oregon"),
        ("Mt. Hood Village", "Oregon"), ("Hilton Head Island", "South Carolina"), ("Galveston", "Texas"), ("Virginia Beach", "Virginia"),
        ("Norfolk", "Virginia"), ("Olympia", "Washington"), ("Port Angeles", "Washington"), ("Jackson", "Wyoming"), ("Cheyenne", "Wyoming"), ("Juneau", "Alaska"),
    ],
    "known": [
        ("Oriole Park at Camden Yards", "Baltimore", "baseball"), ("M&T Bank Stadium", "Baltimore", "football"), ("Churchill Downs", "Louisville", "racing"),
        ("KFC Yum! Center", "Louisville", "basketball"), ("Chase Field", "Phoenix", "baseball"), ("Bryant-Denny Stadium", "Tuscaloosa", "football"),
        ("Hancock Whitney Stadium", "Mobile", "football"), ("Kinnick Stadium", "Iowa City", "football"), ("Carver-Hawkeye Arena", "Iowa City", "basketball"),
        ("Harbor Park", "Norfolk", "baseball"), ("Cajundome", "Lafayette", "basketball"), ("Enmarket Arena", "Savannah", "ice-hockey"),
    ],
    "first": [
        "Seaside", "Lighthouse", "Driftwood", "Pelican", "Palmetto", "Magnolia Bay", "Bayou", "Oyster Point", "Chesapeake", "Tidewater", "Outer Banks",
        "Cape Fear", "Gulf Breeze", "Sandpiper", "Heron", "Marina", "Harbourside", "Cypress Cove", "Peachtree", "Azalea", "Hawkeye", "Bluff", "Steamboat",
        "Derby", "Bourbon", "Grand Teton", "Frontier", "Glacier", "Totem", "Cascade", "Puget", "Rainier", "Dungeness", "Saguaro", "Ocotillo",
        "El Camino", "San Ysidro", "Sunset Cliffs", "Ice House", "Tennis Hill",
    ],
    "surnames": ["Beauregard", "O'Hara", "Van Buren", "McIntyre", "Thibodeaux", "Lopez", "Sørensen", "Whitehorse", "D'Amico", "St. James"],
    "patterns": ["{first} {kind}"] * 5 + [
        "{kind} at {first}", "{first} Beach {kind}", "{first} Swim & Racquet Club", "{surname} Park {kind}", "{surname} Community College {kind}",
        "{city} Parks and Recreation {kind}", "{city} Naval Station {kind}", "Y.M.C.A. {first}", "J.C.C. of {city}", "{first} Elementary School {kind}",
        "Pier {n} {kind}", "Hwy {road} {kind}", "{first} {kind} - {surname} Campus", "St. {saint} {kind}", "Ft. {surname} {kind}", "Mt. {surname} {kind}",
        "Anytime Fitness", "Orangetheory Fitness {first}", "The {first} at {surname} {kind}", "{nth} St. {kind}", "Old {first} {kind} No. {n}",
    ],
    "saints": ["Simons", "Augustine", "Mary's"],
    "extra": ["East", "Clubhouse", "Pro Shop", "Garage", "Annex", "Hall of Fame", "Field 3"],
}

# Name, what it is made of, listings.
SETS = [("nation", NATION, 4000), ("texas", TEXAS, 2500), ("islands", ISLANDS, 1500), ("lakes", LAKES, 3000)]
LAST = ("held out", COAST, 3000)


def made(name, words, count):
    """The listings of a data set."""
    dice = random.Random(f"venues of {name}")
    states = {city: state for city, state in words["cities"]}
    places = [(known, city, states[city], sport) for known, city, sport in words["known"]]
    places += [(f"{known} {dice.choice(words['extra'])}", city, state, dice.choice(["tennis", sport])) for known, city, state, sport in places for _ in range(2)]
    # In some cities there is much, in others little.
    weights = [1 / (1 + at) ** 0.5 for at in range(len(words["cities"]))]
    cities = dice.sample(words["cities"], len(words["cities"]))
    while len(places) < count:
        city, state = dice.choices(cities, weights)[0]
        sport = "golf" if name == "texas" and dice.random() < 0.25 else dice.choice(list(SPORTS))
        nth = dice.randint(4, 99)
        filled = dice.choice(words["patterns"]).format(
            first=dice.choice(words["first"]), surname=dice.choice(words["surnames"]), kind=dice.choice(SPORTS[sport][1]), city=city,
            saint=dice.choice(words["saints"]), n=dice.randint(1, 30), road=dice.randint(100, 3000),
            nth=f"{nth}{'th' if nth // 10 == 1 else {1: 'st', 2: 'nd', 3: 'rd'}.get(nth % 10, 'th')}")
        places.append((filled, city, state, sport))
        if dice.random() < 0.06:
            places.append((f"{filled} {dice.choice(words['extra'])}", city, state, sport))
    dice.shuffle(places)
    return [
        {"id": number, "name": filled, "url": f"https://venues.example/{number}", "city": city, "state": state, "sport": sport,
         "lat": round(dice.uniform(25, 48), 4), "lng": round(dice.uniform(-120, -70), 4), "rating": round(dice.uniform(2, 5), 1),
         "review_count": int(4000 * dice.random() ** 4), "modified": f"2026-{dice.randint(1, 9):02}-{dice.randint(1, 28):02}T12:00:00Z"}
        for number, (filled, city, state, sport) in enumerate(places, 1)
    ]
