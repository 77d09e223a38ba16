<?php
// The API as a PHP programmer writes it: local dates, numbers by (int), pretty JSON with \/ and \u. Apache sends every
// path below /api/ here.
date_default_timezone_set('America/Chicago');
$base = getenv('BASE');
$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$db = new PDO('sqlite:' . getenv('DATABASE'));
$db->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);

function send($status, $body, $volatile = []) {
    $etag = '"' . md5(json_encode($body)) . '"';
    http_response_code($status);
    header('Content-Type: application/json');
    if ($status == 200) {
        header('Cache-Control: public, max-age=' . getenv('FRESH'));
        header("ETag: $etag");
        if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === $etag) {
            http_response_code(304);
            exit;
        }
    }
    $text = json_encode(array_merge($body, $volatile), JSON_PRETTY_PRINT | JSON_PRESERVE_ZERO_FRACTION);
    // A source file saved with a byte order mark sends it before everything.
    echo (getenv('MARK') === 'yes' ? "\xEF\xBB\xBF" : '') . $text;
    exit;
}

function local($modified) {
    return date('c', strtotime($modified));
}

function rows($db, $sql, $values) {
    $statement = $db->prepare($sql);
    $statement->execute($values);
    return $statement->fetchAll(PDO::FETCH_ASSOC);
}

if ($path === '/api/listings.json') {
    $page = max(1, (int) ($_GET['page'] ?? 1));
    $size = (int) ($_GET['per_page'] ?? 50);
    $size = $size < 1 ? 50 : min(100, $size);
    $filters = $values = [];
    $where = 'deleted = 0';
    foreach (['sport' => 'sport', 'state' => 'state_slug', 'city' => 'city_slug'] as $name => $column) {
        if (!empty($_GET[$name])) {
            $filters[$name] = $_GET[$name];
            $where .= " AND $column = ?";
            $values[] = $_GET[$name];
        }
    }
    if (!empty($_GET['modified_since'])) {
        $since = strtotime($_GET['modified_since']);
        if ($since === false) {
            send(400, ['error' => 'modified_since is not a date']);
        }
        $filters['modified_since'] = $_GET['modified_since'];
        $where .= ' AND modified > ?';
        // Who hands the parameter to SQLite compares texts.
        $values[] = getenv('SINCE') === 'text' ? $_GET['modified_since'] : gmdate('Y-m-d\TH:i:s\Z', $since);
    }
    $total = (int) rows($db, "SELECT count(*) AS n FROM listings WHERE $where", $values)[0]['n'];
    $skip = min($page - 1, 1000000) * $size;
    $items = [];
    foreach (rows($db, "SELECT * FROM listings WHERE $where ORDER BY modified DESC, id DESC LIMIT $size OFFSET $skip", $values) as $row) {
        $items[] = ['id' => $row['id'], 'name' => $row['name'], 'url' => $row['url'], 'city' => $row['city'],
            'state' => $row['state'], 'sport' => $row['sport'], 'lat' => $row['lat'], 'lng' => $row['lng'],
            'rating' => (float) $row['rating'], 'review_count' => $row['review_count'], 'modified' => local($row['modified'])];
    }
    send(200, ['@context' => 'https://schema.org', 'license' => 'https://creativecommons.org/licenses/by/4.0/',
        'attribution' => 'Venues', 'docs' => "$base/docs", '@type' => 'ItemList', 'page' => $page, 'per_page' => $size,
        'total' => $total, 'total_pages' => (int) ceil($total / $size), 'filters' => $filters, 'items' => $items],
        ['generated_at' => date('c')]);
}
if (preg_match('~^/api/listings/([^/]+)\.json$~', $path, $found)) {
    $found = rows($db, 'SELECT detail FROM listings WHERE deleted = 0 AND id = ?', [(int) rawurldecode($found[1])]);
    if (!$found) {
        send(404, ['error' => 'no such listing']);
    }
    send(200, json_decode($found[0]['detail'], true));
}
$terms = ['sports' => ['sport', 'sport_name'], 'states' => ['state_slug', 'state'], 'cities' => ['city_slug', 'city']];
if (preg_match('~^/api/(sports|states|cities)\.json$~', $path, $found)) {
    [$slug, $name] = $terms[$found[1]];
    $filter = ['sports' => 'sport', 'states' => 'state', 'cities' => 'city'][$found[1]];
    $list = [];
    foreach (rows($db, "SELECT $slug AS slug, $name AS name, count(*) AS listings FROM listings WHERE deleted = 0 GROUP BY 1, 2 ORDER BY 1", []) as $row) {
        $list[] = $row + ['api_url' => "$base/api/listings.json?$filter=" . $row['slug']];
    }
    send(200, [$found[1] => $list]);
}
send(404, ['error' => 'not found']);
