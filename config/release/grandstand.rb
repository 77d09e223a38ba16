# The template of the Homebrew formula; `finish.sh` fills what stands between @ signs, and removes lines of tarballs that are
# not there.
class Grandstand < Formula
  desc "Mirror and caching reverse proxy of the Public Sports Venue Listings API"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "@REPOSITORY@/releases/download/v@VERSION@/grandstand-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
    sha256 "@SHA256_x86_64@"
  end

  on_arm do
    url "@REPOSITORY@/releases/download/v@VERSION@/grandstand-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
    sha256 "@SHA256_aarch64@"
  end

  def install
    bin.install "grandstand"
    man1.install Dir["man/*.1.gz"]
    bash_completion.install "completions/grandstand.bash" => "grandstand"
    zsh_completion.install "completions/_grandstand"
    fish_completion.install "completions/grandstand.fish"
    pkgshare.install "config"
    doc.install "README.md", "docs"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/grandstand --version")
    system bin/"grandstand", "check", "--config", pkgshare/"config/mirror.toml"
  end
end
