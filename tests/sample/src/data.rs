//! The data of the synthetic world: states and cities, sports, and the words that venues are made of.
//!
//! Only names and rough positions of states and cities are real: coordinates are good to about a hundredth of a degree,
//! boxes to a tenth. Callers: the modules beside it, the test origin.

/// A state (or the District of Columbia).
#[derive(Debug)]
pub struct State {
    /// Postal abbreviation in lower case.
    pub code: &'static str,
    /// Display name.
    pub name: &'static str,
    /// South, west, north and east edge in degrees.
    pub bounds: [f64; 4],
    /// Hours from UTC in winter.
    pub hours: i8,
    /// Share of the venues, relative to the other states.
    pub weight: u64,
    /// Name, latitude and longitude of cities, the largest first.
    pub cities: &'static [(&'static str, f64, f64)],
}

const fn state(
    code: &'static str,
    name: &'static str,
    bounds: [f64; 4],
    hours: i8,
    weight: u64,
    cities: &'static [(&'static str, f64, f64)],
) -> State {
    State { code, name, bounds, hours, weight, cities }
}

/// All states by name.
#[rustfmt::skip]
pub static STATES: [State; 51] = [
    state("al", "Alabama", [30.1, -88.5, 35.0, -84.9], -6, 50, &[("Birmingham", 33.52, -86.80), ("Huntsville", 34.73, -86.59), ("Mobile", 30.69, -88.04), ("Montgomery", 32.37, -86.30), ("Tuscaloosa", 33.21, -87.57), ("Auburn", 32.61, -85.48), ("Decatur", 34.61, -86.98), ("Florence", 34.80, -87.68)]),
    state("ak", "Alaska", [51.2, -179.1, 71.4, -130.0], -9, 7, &[("Anchorage", 61.22, -149.90), ("Fairbanks", 64.84, -147.72), ("Juneau", 58.30, -134.42), ("Utqiaġvik", 71.29, -156.79)]),
    state("az", "Arizona", [31.3, -114.8, 37.0, -109.0], -7, 74, &[("Phoenix", 33.45, -112.07), ("Tucson", 32.22, -110.97), ("Mesa", 33.42, -111.83), ("Scottsdale", 33.49, -111.93), ("Glendale", 33.54, -112.19), ("Tempe", 33.43, -111.94), ("Peoria", 33.58, -112.24), ("Flagstaff", 35.20, -111.65), ("Cañon Vista", 34.54, -112.47)]),
    state("ar", "Arkansas", [33.0, -94.6, 36.5, -89.6], -6, 30, &[("Little Rock", 34.75, -92.29), ("Fayetteville", 36.06, -94.16), ("Fort Smith", 35.39, -94.40), ("Jonesboro", 35.84, -90.70), ("Texarkana", 33.44, -94.04)]),
    state("ca", "California", [32.5, -124.4, 42.0, -114.1], -8, 390, &[("Los Angeles", 34.05, -118.24), ("San Diego", 32.72, -117.16), ("San José", 37.34, -121.89), ("San Francisco", 37.77, -122.42), ("Fresno", 36.74, -119.79), ("Sacramento", 38.58, -121.49), ("Long Beach", 33.77, -118.19), ("Oakland", 37.80, -122.27), ("Bakersfield", 35.37, -119.02), ("Anaheim", 33.84, -117.91), ("Riverside", 33.95, -117.40), ("Irvine", 33.68, -117.83), ("Glendale", 34.14, -118.26), ("Pasadena", 34.15, -118.14), ("Berkeley", 37.87, -122.27), ("Concord", 37.98, -122.03), ("Richmond", 37.94, -122.35), ("Santa Barbara", 34.42, -119.70), ("Redding", 40.59, -122.39), ("Hollywood", 34.10, -118.33), ("Ontario", 34.06, -117.65), ("Newport Beach", 33.62, -117.93)]),
    state("co", "Colorado", [37.0, -109.1, 41.0, -102.0], -7, 58, &[("Denver", 39.74, -104.99), ("Colorado Springs", 38.83, -104.82), ("Aurora", 39.73, -104.83), ("Fort Collins", 40.59, -105.08), ("Boulder", 40.01, -105.27), ("Pueblo", 38.25, -104.61), ("Cañon City", 38.44, -105.24), ("Aspen", 39.19, -106.82)]),
    state("ct", "Connecticut", [41.0, -73.7, 42.1, -71.8], -5, 36, &[("Bridgeport", 41.19, -73.20), ("New Haven", 41.31, -72.92), ("Hartford", 41.76, -72.67), ("Stamford", 41.05, -73.54), ("Manchester", 41.78, -72.52), ("Middletown", 41.56, -72.65)]),
    state("de", "Delaware", [38.5, -75.8, 39.8, -75.1], -5, 10, &[("Wilmington", 39.74, -75.55), ("Dover", 39.16, -75.52), ("Newark", 39.68, -75.75), ("Middletown", 39.45, -75.72)]),
    state("dc", "District of Columbia", [38.79, -77.12, 38.996, -76.91], -5, 12, &[("Washington", 38.90, -77.04)]),
    state("fl", "Florida", [24.5, -87.6, 31.0, -80.0], -5, 226, &[("Miami", 25.76, -80.19), ("Jacksonville", 30.33, -81.66), ("Tampa", 27.95, -82.46), ("Orlando", 28.54, -81.38), ("St. Petersburg", 27.77, -82.64), ("Hialeah", 25.86, -80.28), ("Tallahassee", 30.44, -84.28), ("Fort Lauderdale", 26.12, -80.14), ("Hollywood", 26.01, -80.15), ("Gainesville", 29.65, -82.32), ("Pensacola", 30.42, -87.22), ("Key West", 24.56, -81.78), ("Naples", 26.14, -81.79)]),
    state("ga", "Georgia", [30.4, -85.6, 35.0, -80.8], -5, 110, &[("Atlanta", 33.75, -84.39), ("Augusta", 33.47, -81.97), ("Columbus", 32.46, -84.99), ("Savannah", 32.08, -81.09), ("Athens", 33.96, -83.38), ("Macon", 32.84, -83.63), ("Albany", 31.58, -84.16), ("Gainesville", 34.30, -83.82)]),
    state("hi", "Hawaii", [18.9, -160.3, 22.3, -154.8], -10, 14, &[("Honolulu", 21.31, -157.86), ("Hilo", 19.71, -155.08), ("Kāne‘ohe", 21.40, -157.80), ("Līhu‘e", 21.98, -159.37)]),
    state("id", "Idaho", [42.0, -117.2, 49.0, -111.0], -7, 19, &[("Boise", 43.62, -116.20), ("Nampa", 43.54, -116.56), ("Idaho Falls", 43.49, -112.03), ("Pocatello", 42.87, -112.45), ("Coeur d'Alene", 47.68, -116.78), ("Moscow", 46.73, -117.00)]),
    state("il", "Illinois", [37.0, -91.5, 42.5, -87.0], -6, 125, &[("Chicago", 41.88, -87.63), ("Aurora", 41.76, -88.32), ("Joliet", 41.53, -88.08), ("Naperville", 41.75, -88.15), ("Rockford", 42.27, -89.09), ("Springfield", 39.78, -89.65), ("Peoria", 40.69, -89.59), ("Champaign", 40.12, -88.24), ("Bloomington", 40.48, -88.99), ("Decatur", 39.84, -88.95), ("O'Fallon", 38.59, -89.91)]),
    state("in", "Indiana", [37.8, -88.1, 41.8, -84.8], -5, 68, &[("Indianapolis", 39.77, -86.16), ("Fort Wayne", 41.08, -85.14), ("Evansville", 37.97, -87.57), ("South Bend", 41.68, -86.25), ("Bloomington", 39.17, -86.53), ("Columbus", 39.20, -85.92), ("Lafayette", 40.42, -86.88), ("Richmond", 39.83, -84.89)]),
    state("ia", "Iowa", [40.4, -96.6, 43.5, -90.1], -6, 32, &[("Des Moines", 41.59, -93.62), ("Cedar Rapids", 41.98, -91.67), ("Davenport", 41.52, -90.58), ("Iowa City", 41.66, -91.53), ("Burlington", 40.81, -91.11)]),
    state("ks", "Kansas", [37.0, -102.1, 40.0, -94.6], -6, 29, &[("Wichita", 37.69, -97.34), ("Overland Park", 38.98, -94.67), ("Kansas City", 39.11, -94.63), ("Topeka", 39.05, -95.68), ("Lawrence", 38.97, -95.24), ("Manhattan", 39.18, -96.57)]),
    state("ky", "Kentucky", [36.5, -89.6, 39.1, -82.0], -5, 45, &[("Louisville", 38.25, -85.76), ("Lexington", 38.04, -84.50), ("Bowling Green", 36.99, -86.44), ("Owensboro", 37.77, -87.11), ("Covington", 39.08, -84.51)]),
    state("la", "Louisiana", [28.9, -94.0, 33.0, -88.8], -6, 46, &[("New Orleans", 29.95, -90.07), ("Baton Rouge", 30.45, -91.19), ("Shreveport", 32.53, -93.75), ("Lafayette", 30.22, -92.02), ("Lake Charles", 30.23, -93.22), ("Monroe", 32.51, -92.12)]),
    state("me", "Maine", [43.0, -71.1, 47.5, -66.9], -5, 14, &[("Portland", 43.66, -70.26), ("Lewiston", 44.10, -70.21), ("Bangor", 44.80, -68.77), ("Augusta", 44.31, -69.78)]),
    state("md", "Maryland", [37.9, -79.5, 39.7, -75.0], -5, 62, &[("Baltimore", 39.29, -76.61), ("Columbia", 39.20, -76.86), ("Silver Spring", 38.99, -77.03), ("Annapolis", 38.98, -76.49), ("Frederick", 39.41, -77.41), ("Salisbury", 38.36, -75.60)]),
    state("ma", "Massachusetts", [41.2, -73.5, 42.9, -69.9], -5, 70, &[("Boston", 42.36, -71.06), ("Worcester", 42.26, -71.80), ("Springfield", 42.10, -72.59), ("Cambridge", 42.37, -71.11), ("Lowell", 42.63, -71.32), ("Salem", 42.52, -70.90), ("Plymouth", 41.96, -70.67)]),
    state("mi", "Michigan", [41.7, -90.4, 48.2, -82.4], -5, 100, &[("Detroit", 42.33, -83.05), ("Grand Rapids", 42.96, -85.67), ("Ann Arbor", 42.28, -83.74), ("Lansing", 42.73, -84.56), ("Flint", 43.01, -83.69), ("Kalamazoo", 42.29, -85.59), ("Jackson", 42.25, -84.40), ("Marquette", 46.55, -87.40), ("Monroe", 41.92, -83.40)]),
    state("mn", "Minnesota", [43.5, -97.2, 49.4, -89.5], -6, 57, &[("Minneapolis", 44.98, -93.27), ("St. Paul", 44.95, -93.09), ("Rochester", 44.01, -92.48), ("Duluth", 46.79, -92.10), ("Bloomington", 44.84, -93.30), ("St. Cloud", 45.56, -94.16), ("Eveleth", 47.46, -92.54)]),
    state("ms", "Mississippi", [30.2, -91.7, 35.0, -88.1], -6, 29, &[("Jackson", 32.30, -90.18), ("Gulfport", 30.37, -89.09), ("Hattiesburg", 31.33, -89.29), ("Oxford", 34.37, -89.52), ("Columbus", 33.50, -88.43)]),
    state("mo", "Missouri", [36.0, -95.8, 40.6, -89.1], -6, 62, &[("Kansas City", 39.10, -94.58), ("St. Louis", 38.63, -90.20), ("Springfield", 37.21, -93.29), ("Columbia", 38.95, -92.33), ("Independence", 39.09, -94.42), ("Jefferson City", 38.58, -92.17), ("O'Fallon", 38.81, -90.70)]),
    state("mt", "Montana", [44.4, -116.0, 49.0, -104.0], -7, 11, &[("Billings", 45.78, -108.50), ("Missoula", 46.87, -113.99), ("Bozeman", 45.68, -111.04), ("Helena", 46.59, -112.04)]),
    state("ne", "Nebraska", [40.0, -104.0, 43.0, -95.3], -6, 20, &[("Omaha", 41.26, -95.93), ("Lincoln", 40.81, -96.68), ("Grand Island", 40.93, -98.34), ("Kearney", 40.70, -99.08)]),
    state("nv", "Nevada", [35.0, -120.0, 42.0, -114.0], -8, 32, &[("Las Vegas", 36.17, -115.14), ("Henderson", 36.04, -114.98), ("Reno", 39.53, -119.81), ("Carson City", 39.16, -119.77)]),
    state("nh", "New Hampshire", [42.7, -72.6, 45.3, -70.6], -5, 14, &[("Manchester", 42.99, -71.46), ("Nashua", 42.77, -71.47), ("Concord", 43.21, -71.54), ("Dover", 43.20, -70.87)]),
    state("nj", "New Jersey", [38.9, -75.6, 41.4, -73.9], -5, 93, &[("Newark", 40.74, -74.17), ("Jersey City", 40.73, -74.08), ("Paterson", 40.92, -74.17), ("Trenton", 40.22, -74.76), ("Camden", 39.94, -75.12), ("Atlantic City", 39.36, -74.42), ("Washington", 40.76, -74.98), ("Princeton", 40.36, -74.66), ("Washington", 39.75, -75.07)]),
    state("nm", "New Mexico", [31.3, -109.1, 37.0, -103.0], -7, 21, &[("Albuquerque", 35.08, -106.65), ("Las Cruces", 32.31, -106.78), ("Santa Fe", 35.69, -105.94), ("Las Vegas", 35.59, -105.22), ("Española", 35.99, -106.08)]),
    state("ny", "New York", [40.5, -79.8, 45.0, -71.9], -5, 196, &[("New York", 40.71, -74.01), ("Brooklyn", 40.65, -73.95), ("Buffalo", 42.89, -78.88), ("Rochester", 43.16, -77.61), ("Yonkers", 40.93, -73.90), ("Syracuse", 43.05, -76.15), ("Albany", 42.65, -73.75), ("Ithaca", 42.44, -76.50), ("Lake Placid", 44.28, -73.98), ("Middletown", 41.45, -74.42), ("Cooperstown", 42.70, -74.92)]),
    state("nc", "North Carolina", [33.8, -84.3, 36.6, -75.5], -5, 107, &[("Charlotte", 35.23, -80.84), ("Raleigh", 35.78, -78.64), ("Greensboro", 36.07, -79.79), ("Durham", 35.99, -78.90), ("Winston-Salem", 36.10, -80.24), ("Fayetteville", 35.05, -78.88), ("Wilmington", 34.23, -77.94), ("Asheville", 35.60, -82.55), ("Concord", 35.41, -80.58), ("Greenville", 35.61, -77.37), ("Burlington", 36.10, -79.44), ("Jacksonville", 34.75, -77.43), ("Salisbury", 35.67, -80.47)]),
    state("nd", "North Dakota", [45.9, -104.1, 49.0, -96.6], -6, 8, &[("Fargo", 46.88, -96.79), ("Bismarck", 46.81, -100.78), ("Grand Forks", 47.93, -97.03)]),
    state("oh", "Ohio", [38.4, -84.8, 42.0, -80.5], -5, 118, &[("Columbus", 39.96, -83.00), ("Cleveland", 41.50, -81.69), ("Cincinnati", 39.10, -84.51), ("Toledo", 41.65, -83.54), ("Akron", 41.08, -81.52), ("Dayton", 39.76, -84.19), ("Canton", 40.80, -81.38), ("Springfield", 39.92, -83.81), ("Athens", 39.33, -82.10), ("Middletown", 39.52, -84.40), ("Bowling Green", 41.37, -83.65), ("Dover", 40.52, -81.47), ("Newark", 40.06, -82.40)]),
    state("ok", "Oklahoma", [33.6, -103.0, 37.0, -94.4], -6, 40, &[("Oklahoma City", 35.47, -97.52), ("Tulsa", 36.15, -95.99), ("Norman", 35.22, -97.44), ("Stillwater", 36.12, -97.06), ("Miami", 36.87, -94.88)]),
    state("or", "Oregon", [42.0, -124.6, 46.3, -116.5], -8, 42, &[("Portland", 45.52, -122.68), ("Eugene", 44.05, -123.09), ("Salem", 44.94, -123.04), ("Gresham", 45.50, -122.43), ("Bend", 44.06, -121.32), ("Springfield", 44.05, -123.02), ("Medford", 42.33, -122.87), ("Ontario", 44.03, -116.96)]),
    state("pa", "Pennsylvania", [39.7, -80.5, 42.3, -74.7], -5, 129, &[("Philadelphia", 39.95, -75.17), ("Pittsburgh", 40.44, -80.00), ("Allentown", 40.60, -75.47), ("Erie", 42.13, -80.09), ("Reading", 40.34, -75.93), ("Scranton", 41.41, -75.66), ("Lancaster", 40.04, -76.31), ("Harrisburg", 40.27, -76.88), ("State College", 40.79, -77.86), ("Williamsport", 41.24, -77.00), ("Washington", 40.17, -80.25)]),
    state("ri", "Rhode Island", [41.1, -71.9, 42.0, -71.1], -5, 11, &[("Providence", 41.82, -71.41), ("Warwick", 41.70, -71.42), ("Newport", 41.49, -71.31)]),
    state("sc", "South Carolina", [32.0, -83.4, 35.2, -78.5], -5, 53, &[("Charleston", 32.78, -79.93), ("Columbia", 34.00, -81.03), ("Greenville", 34.85, -82.40), ("Myrtle Beach", 33.69, -78.89), ("Florence", 34.20, -79.76), ("Aiken", 33.56, -81.72)]),
    state("sd", "South Dakota", [42.5, -104.1, 45.9, -96.4], -6, 9, &[("Sioux Falls", 43.55, -96.73), ("Rapid City", 44.08, -103.23), ("Aberdeen", 45.46, -98.49)]),
    state("tn", "Tennessee", [35.0, -90.3, 36.7, -81.6], -6, 71, &[("Nashville", 36.16, -86.78), ("Memphis", 35.15, -90.05), ("Knoxville", 35.96, -83.92), ("Chattanooga", 35.05, -85.31), ("Clarksville", 36.53, -87.36), ("Jackson", 35.61, -88.81), ("Columbia", 35.62, -87.04)]),
    state("tx", "Texas", [25.8, -106.6, 36.5, -93.5], -6, 305, &[("Houston", 29.76, -95.37), ("San Antonio", 29.42, -98.49), ("Dallas", 32.78, -96.80), ("Austin", 30.27, -97.74), ("Fort Worth", 32.76, -97.33), ("El Paso", 31.76, -106.49), ("Arlington", 32.74, -97.11), ("Corpus Christi", 27.80, -97.40), ("Plano", 33.02, -96.70), ("Lubbock", 33.58, -101.86), ("Laredo", 27.51, -99.51), ("Amarillo", 35.22, -101.83), ("Pasadena", 29.69, -95.21), ("Waco", 31.55, -97.15), ("College Station", 30.63, -96.33), ("Odessa", 31.85, -102.37), ("Marfa", 30.31, -104.02), ("Texarkana", 33.43, -94.05), ("Paris", 33.66, -95.56), ("Athens", 32.20, -95.86)]),
    state("ut", "Utah", [37.0, -114.1, 42.0, -109.0], -7, 34, &[("Salt Lake City", 40.76, -111.89), ("Provo", 40.23, -111.66), ("Ogden", 41.22, -111.97), ("St. George", 37.10, -113.58), ("Park City", 40.65, -111.50), ("Moab", 38.57, -109.55)]),
    state("vt", "Vermont", [42.7, -73.4, 45.0, -71.5], -5, 6, &[("Burlington", 44.48, -73.21), ("Rutland", 43.61, -72.97), ("Stowe", 44.47, -72.69)]),
    state("va", "Virginia", [36.5, -83.7, 39.5, -75.2], -5, 87, &[("Virginia Beach", 36.85, -75.98), ("Norfolk", 36.85, -76.29), ("Richmond", 37.54, -77.44), ("Arlington", 38.88, -77.10), ("Newport News", 37.09, -76.47), ("Alexandria", 38.80, -77.05), ("Roanoke", 37.27, -79.94), ("Charlottesville", 38.03, -78.48), ("Salem", 37.29, -80.05), ("Bristol", 36.60, -82.19)]),
    state("wa", "Washington", [45.5, -124.8, 49.0, -116.9], -8, 78, &[("Seattle", 47.61, -122.33), ("Spokane", 47.66, -117.43), ("Tacoma", 47.25, -122.44), ("Vancouver", 45.64, -122.66), ("Bellevue", 47.61, -122.20), ("Everett", 47.98, -122.20), ("Yakima", 46.60, -120.51), ("Aberdeen", 46.98, -123.82)]),
    state("wv", "West Virginia", [37.2, -82.6, 40.6, -77.7], -5, 18, &[("Charleston", 38.35, -81.63), ("Huntington", 38.42, -82.45), ("Morgantown", 39.63, -79.96)]),
    state("wi", "Wisconsin", [42.5, -92.9, 47.1, -86.8], -6, 59, &[("Milwaukee", 43.04, -87.91), ("Madison", 43.07, -89.40), ("Green Bay", 44.51, -88.01), ("Kenosha", 42.58, -87.82), ("Eau Claire", 44.81, -91.50), ("La Crosse", 43.80, -91.24)]),
    state("wy", "Wyoming", [41.0, -111.1, 45.0, -104.1], -7, 6, &[("Cheyenne", 41.14, -104.82), ("Casper", 42.87, -106.31), ("Laramie", 41.31, -105.59), ("Jackson", 43.48, -110.76)]),
];

/// Slugs that do not follow the rule: state code, city name, which of that name in the state (from 0), slug.
/// Two cities of one state share a name and have two slugs; one city lies in two states and has one slug.
pub const ODD_SLUGS: [(&str, &str, usize, &str); 4] = [
    ("nj", "Washington", 0, "washington-warren-county-nj"),
    ("nj", "Washington", 1, "washington-gloucester-county-nj"),
    ("ar", "Texarkana", 0, "texarkana"),
    ("tx", "Texarkana", 0, "texarkana"),
];

/// A sport and its venues.
#[derive(Debug)]
pub struct Sport {
    /// Slug as used in filters and in items.
    pub slug: &'static str,
    /// Display name.
    pub name: &'static str,
    /// Share of the venues, relative to the other sports.
    pub weight: u64,
    /// Words for such a venue.
    pub kinds: &'static [&'static str],
}

const fn sport(slug: &'static str, name: &'static str, weight: u64, kinds: &'static [&'static str]) -> Sport {
    Sport { slug, name, weight, kinds }
}

/// All sports, the most frequent first.
#[rustfmt::skip]
pub static SPORTS: [Sport; 16] = [
    sport("baseball", "Baseball", 240, &["Ballpark", "Field", "Diamond", "Park"]),
    sport("soccer", "Soccer", 210, &["Soccer Complex", "Field", "Pitch", "Stadium"]),
    sport("basketball", "Basketball", 170, &["Arena", "Gymnasium", "Courts", "Fieldhouse"]),
    sport("tennis", "Tennis", 120, &["Tennis Center", "Courts", "Racquet Club"]),
    sport("golf", "Golf", 95, &["Golf Course", "Links", "Country Club"]),
    sport("american-football", "American Football", 80, &["Stadium", "Bowl", "Field"]),
    sport("swimming", "Swimming & Diving", 60, &["Aquatic Center", "Pool", "Natatorium"]),
    sport("ice-hockey", "Ice Hockey", 45, &["Ice Arena", "Rink", "Ice Center"]),
    sport("pickleball", "Pickleball", 40, &["Pickleball Courts", "Paddle Club"]),
    sport("track-and-field", "Track and Field", 30, &["Track", "Athletic Field"]),
    sport("volleyball", "Volleyball", 25, &["Volleyball Center", "Sand Courts"]),
    sport("skateboarding", "Skateboarding", 20, &["Skate Park", "Bowl"]),
    sport("climbing", "Climbing", 14, &["Climbing Gym", "Boulder Hall"]),
    sport("lacrosse", "Lacrosse", 9, &["Lacrosse Field", "Turf"]),
    sport("petanque", "Pétanque", 3, &["Boulodrome", "Pétanque Terrain"]),
    sport("curling", "Curling", 1, &["Curling Club", "Curling Sheets"]),
];

/// Ordinary first parts of names.
#[rustfmt::skip]
pub const PLAIN: [&str; 40] = [
    "Lincoln", "Riverside", "Memorial", "Veterans", "Jefferson", "Oakwood", "Lakeview", "Franklin", "Heritage",
    "Eastside", "Westgate", "Northfield", "Southpoint", "Pioneer", "Centennial", "Liberty", "Union", "Hillcrest",
    "Maple Grove", "Cedar Creek", "Sunset", "Harbor", "Mill Pond", "Prairie", "Summit", "Canyon", "Bayview",
    "Stonebridge", "Fairgrounds", "Roosevelt", "King", "Chavez", "Martin", "Washington", "Jackson", "Eagle", "Falcon",
    "Mustang", "Grant", "Willow",
];

/// First parts that break careless software.
#[rustfmt::skip]
pub const ODD: [&str; 20] = [
    "Peña", "Kīlauea", "O'Brien", "\"Iron Mike\" Sadowski", "St. John’s", "Señor ⚾", "Łódź Friendship", "東京 Garden",
    "North / South", "A\\B Works", "Müller & Söhne", "Tab\tStop", "Kaʻahumanu", "Straße", "Niño–Díaz", "👩🏽‍🚀 Apollo",
    "<b>Bold</b>", "Cafe\u{301} Court", "Zoë", "100% Sports",
];

/// Said in every body.
pub const ATTRIBUTION: &str =
    "Synthetic demonstration data, not real venues - generated by the grandstand sample origin";
/// The licence of the data.
pub const LICENSE: &str = "https://creativecommons.org/licenses/by/4.0/";
/// Where the API is described.
pub const DOCS: &str = "https://venues.example/api/docs";
/// The provider's pages, to which `url` points.
pub const SITE: &str = "https://venues.example";

pub(crate) const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
pub(crate) const STREETS: [&str; 8] =
    ["Main St", "Park Ave", "Stadium Dr", "Elm St", "Cañada Rd", "1st St / Rear Gate", "Lake Shore Blvd", "Route 9"];
pub(crate) const REVIEWERS: [&str; 8] = ["Sam", "Renée", "Jo", "Bjørn", "Mei 美", "Ana-Lucía", "T.", "O'Neal"];
pub(crate) const OPINIONS: [&str; 8] = [
    "Great lights, bring a blanket.",
    "Parking is \"limited\".\nCome early.",
    "Best nachos in town 🌮",
    "Surface could use some work, staff is lovely.",
    "5/5 would play again",
    "Locker rooms were closed.",
    "Très bien !",
    "Kids loved it.",
];
