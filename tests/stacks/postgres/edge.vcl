vcl 4.1;
# An edge that weakens every tag, sends Age, and answers with old copies while it fetches new ones.
backend default { .host = "127.0.0.1"; .port = "@DIRECT@"; }
sub vcl_backend_response {
    set beresp.grace = @FRESH@s;
    if (beresp.http.ETag && beresp.http.ETag !~ "^W/") {
        set beresp.http.ETag = "W/" + beresp.http.ETag;
    }
}
