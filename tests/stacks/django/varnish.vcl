vcl 4.1;
# Varnish with grace: the first request after the freshness gets the old copy, with its Age and the Date of the origin.
backend default { .host = "127.0.0.1"; .port = "@DIRECT@"; }
sub vcl_backend_response {
    set beresp.grace = @FRESH@s;
}
