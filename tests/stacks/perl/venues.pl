#!/usr/bin/perl
# The API as a CGI: a process for each request, so that each answer has another order of keys. No entity tags.
use strict;
use warnings;
use JSON::XS;
use POSIX qw(ceil strftime);

my ($base, $rows) = @ENV{qw(BASE ROWS)};

sub send_json {
    my ($status, $body) = @_;
    print "Status: $status\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n\r\n", encode_json($body);
    exit;
}

sub asked {
    my %asked;
    for (split /&/, $ENV{QUERY_STRING} // '') {
        my ($name, $value) = map { s/\+/ /gr =~ s/%([0-9a-fA-F]{2})/chr hex $1/ger } split /=/, $_, 2;
        $asked{$name} = $value // '';
    }
    return %asked;
}

open my $file, '<:raw', $rows or die "$rows: $!";
my @rows = @{decode_json(do { local $/; <$file> })};
my $path = $ENV{REQUEST_URI} =~ s/\?.*//r;

if ($path eq '/api/listings.json') {
    my (%asked, %filters) = asked();
    my %columns = (sport => 'sport', state => 'state_slug', city => 'city_slug');
    for my $name (grep { ($asked{$_} // '') ne '' } keys %columns) {
        $filters{$name} = $asked{$name};
        @rows = grep { $_->{$columns{$name}} eq $asked{$name} } @rows;
    }
    if (my $since = $asked{modified_since}) {
        send_json(400, {error => 'modified_since is not a date'}) unless $since =~ /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d:\d\d(\.\d+)?Z)?$/;
        $filters{modified_since} = $since;
        # Times of one form sort as text.
        my $after = $2 ? $since : "$1T00:00:00Z";
        @rows = grep { $_->{modified} gt $after } @rows;
    }
    @rows = sort { $b->{modified} cmp $a->{modified} || $b->{id} <=> $a->{id} } @rows;
    my ($page, $size) = map { ($_ // '') =~ /^\d+$/ ? $_ + 0 : 0 } @asked{qw(page per_page)};
    $page ||= 1;
    $size = $size == 0 ? 50 : $size > 100 ? 100 : $size;
    my ($total, $skip) = (scalar @rows, ($page - 1) * $size);
    my @names = qw(id name url city state sport lat lng rating review_count modified);
    my @items = map { my $row = $_; +{map { $_ => $row->{$_} } @names} } $skip < $total ? splice(@rows, $skip, $size) : ();
    send_json(200, {
        '@context' => 'https://schema.org', license => 'https://creativecommons.org/licenses/by/4.0/', attribution => 'Venues',
        docs => "$base/docs", generated_at => strftime('%Y-%m-%dT%H:%M:%SZ', gmtime), '@type' => 'ItemList', page => $page,
        per_page => $size, total => $total, total_pages => ceil($total / $size), filters => \%filters, items => \@items,
    });
}
if ($path =~ m{^/api/listings/([1-9]\d*)\.json$}) {
    my ($row) = grep { $_->{id} == $1 } @rows;
    send_json($row ? (200, $row->{detail}) : (404, {error => 'no such listing'}));
}
my %terms = (sports => [qw(sport sport_name sport)], states => [qw(state_slug state state)], cities => [qw(city_slug city city)]);
if ($path =~ m{^/api/(\w+)\.json$} and my $term = $terms{$1}) {
    my ($slug, $name, $filter) = @$term;
    my (%found, $kind);
    $kind = $1;
    for my $row (@rows) {
        my $one = $found{$row->{$slug}} //= {slug => $row->{$slug}, name => $row->{$name}, count => 0,
            api_url => "$base/api/listings.json?$filter=$row->{$slug}"};
        $one->{count}++;
    }
    send_json(200, {$kind => [map { $found{$_} } sort keys %found]});
}
send_json(404, {error => 'no such listing'});
