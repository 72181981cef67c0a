//! The kinds of secrets, and the words for them.

use std::fmt;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// The kind of a secret. Its word is part of the mark that replaces the secret.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum SecretKind {
            $($(#[$doc])* $name,)*
        }

        impl SecretKind {
            /// All kinds, in the order of their rules.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the word used in marks, reports and JSON.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }
        }
    };
}

kinds! {
    /// A private key in PEM, complete or truncated.
    PrivateKey = "private-key",
    /// A key or token of Anthropic.
    Anthropic = "anthropic-key",
    /// A key of OpenRouter.
    OpenRouter = "openrouter-key",
    /// A key of OpenAI, or of a service whose keys have the same form (`sk-…`).
    OpenAi = "openai-key",
    /// An API key of Google.
    GoogleApi = "google-api-key",
    /// An OAuth token or client secret of Google.
    GoogleOauth = "google-oauth",
    /// An access key id of AWS.
    AwsKeyId = "aws-access-key-id",
    /// A secret access key of AWS.
    AwsSecret = "aws-secret-key",
    /// A token of GitHub.
    GitHub = "github-token",
    /// A token of GitLab.
    GitLab = "gitlab-token",
    /// A token of Slack.
    Slack = "slack-token",
    /// The URL of a Slack webhook, which is itself a secret.
    SlackWebhook = "slack-webhook",
    /// A secret key of Stripe, or the secret of one of its webhooks.
    Stripe = "stripe-key",
    /// A token of npm.
    Npm = "npm-token",
    /// A token of PyPI.
    PyPi = "pypi-token",
    /// A token of Hugging Face.
    HuggingFace = "huggingface-token",
    /// An API key of Twilio.
    Twilio = "twilio-key",
    /// An API key of SendGrid.
    SendGrid = "sendgrid-key",
    /// A token of another service, recognized by its prefix.
    ServiceToken = "service-token",
    /// A JSON Web Token.
    Jwt = "jwt",
    /// The password in a URL.
    UrlPassword = "url-password",
    /// The credentials after `Authorization: Bearer`, `Basic` or `Token`.
    Bearer = "bearer-token",
    /// A random-looking value assigned to a name such as `api_key` or `client_secret`.
    Assigned = "assigned-secret",
    /// A match of a pattern added by the caller.
    Pattern = "pattern",
}

impl SecretKind {
    /// Returns the kind with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }
}

impl fmt::Display for SecretKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
