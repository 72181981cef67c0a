//! The properties of each provider: a [`Profile`], in a folder with the same files for all. To add
//! a provider, add a folder, a row of [`Dialect`], and a line of [`DialectAdapter::profile`].

use tract_compile::Rules;
use tract_core::{Draft, Part, Reply};
use tract_schema::Dialect;

use crate::error::{ImportError, ReplyError};
use crate::import::Watch;
use crate::params::Params;
use crate::raw::{self, Fields, Node};
use crate::sheet::RequestWriter;
use crate::stream::Accumulate;

/// Members of a request's body in order: name and JSON text.
pub(crate) type Members = Vec<(String, String)>;

/// The provider-specific steps of reading and writing requests.
pub(crate) trait Adapter: Sync {
    /// Writes the list of tools.
    fn tools(&self, tools: &[String]) -> String {
        raw::array(tools)
    }

    /// Corrects parameters that depend on the model, once it is known.
    fn settle(&self, _params: &mut Params) {}

    /// Returns whether the members of a request exist only in this dialect.
    fn recognizes(&self, _request: &Fields<'_>) -> bool {
        false
    }

    /// Reads the instructions that a request has apart from its messages.
    fn instructions(&self, _request: &Fields<'_>) -> Result<Option<Draft>, ImportError> {
        Ok(None)
    }

    /// Reads the part of a request before its messages. Returns whether messages are not required:
    /// they were read too, or they are optional.
    fn begin(&self, request: &Fields<'_>, watch: &mut Watch) -> Result<bool, ImportError> {
        watch.drafts.extend(self.instructions(request)?);
        Ok(false)
    }

    /// Returns the members of a request that are neither messages nor tools, as an object.
    fn parameters(&self, profile: &Profile, request: &Fields<'_>) -> String {
        let own = [Some(profile.list), Some("tools"), profile.system];
        let own: Vec<&str> = own.into_iter().flatten().collect();
        request.without(&own)
    }

    /// Makes a reader for the messages of one request.
    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a>;

    /// Splits an element of a request's list of tools, which may contain several.
    fn tools_of<'a>(&self, element: Node<'a>) -> Result<Vec<Node<'a>>, ImportError> {
        Ok(vec![element])
    }
}

/// Reads the messages of one request, one after the other.
pub(crate) trait Reader<'a> {
    /// Reads the next message into drafts.
    fn message(&mut self, message: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError>;

    /// Makes a draft of the parts that are held back until the end.
    fn end(&mut self) -> Option<Draft> {
        None
    }
}

/// The properties of a provider that all its requests share.
pub(crate) struct Profile {
    pub(crate) adapter: &'static dyn Adapter,
    /// The display name.
    pub(crate) title: &'static str,
    /// The name of the form that is a whole request.
    pub(crate) params: &'static str,
    /// Whether the conversation without parameters is a form, too.
    pub(crate) has_conversation: bool,
    /// The form of received messages: dialect and revision. The revision changes whenever lowering
    /// changes: stored bytes were omitted because the old lowering reproduces them.
    pub(crate) form: &'static str,
    /// The form of instructions that are apart from the messages.
    pub(crate) system_form: Option<&'static str>,
    /// The dialect name of parts that only this provider understands.
    pub(crate) opaque: &'static str,
    /// The member that holds the messages.
    pub(crate) list: &'static str,
    /// The member that holds the instructions, if they are apart.
    pub(crate) system: Option<&'static str>,
    /// Whether the body names the model; otherwise the URL does.
    pub(crate) names_model: bool,
    /// The path of the token limit: a member, or a member of a member.
    pub(crate) limit: &'static [&'static str],
    /// The known members of a request.
    pub(crate) parameters: &'static [&'static str],
    /// The known members of the object with sampling parameters, if there is one.
    pub(crate) options: &'static [&'static str],
    /// Adds the provider's rules for calls and results.
    pub(crate) rules: fn(Rules) -> Rules,
    /// Writes the members that hold the conversation.
    pub(crate) conversation: fn(&mut RequestWriter<'_>) -> Members,
    /// Sets a parameter whose name or shape differs from Chat Completions. Returns whether it was
    /// handled.
    pub(crate) set: fn(&mut Params, &str, &str) -> bool,
    /// Returns the path of a request after the base URL, with its query, and the final body.
    /// `streaming` requests a stream, and `counts` the token counts of the stream.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "the client alone sends"))]
    pub(crate) wire: fn(Params, streaming: bool, counts: bool) -> (String, Params),
    /// Reads a complete answer. If a place is given, calls without ids get the ids of a message at
    /// that index.
    pub(crate) reply: fn(&Fields<'_>, place: Option<usize>) -> Result<Reply, ReplyError>,
    /// Makes an assembler for a streamed answer.
    pub(crate) stream: fn() -> Box<dyn Accumulate>,
    /// Whether servers of other vendors implement the API, and accept other members.
    pub(crate) is_shared: bool,
    /// Maximum length of a call id in bytes; absent if calls need no ids.
    pub(crate) longest_id: Option<usize>,
    /// Whether a request with two tools of the same name is rejected.
    pub(crate) refuses_same_names: bool,
    /// Members of a message that belong to another dialect.
    pub(crate) foreign: Foreign,
    /// Whether a stream consists of JSON lines instead of server-sent events.
    pub(crate) streams_lines: bool,
    /// The provider's own server.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only clients ask for it"))]
    pub(crate) server: Server,
}

impl Profile {
    /// Makes a part of content that only this provider understands, as received.
    pub(crate) fn opaque_part(&self, node: &Node<'_>) -> Part {
        Part::Opaque { dialect: self.opaque.into(), json: node.raw.into() }
    }
}

/// Members that a message of a dialect cannot contain.
pub(crate) struct Foreign {
    /// Members.
    pub(crate) members: &'static [&'static str],
    /// Roles.
    pub(crate) roles: &'static [&'static str],
    /// Types of content, each with the dialect that has it.
    pub(crate) blocks: &'static [(&'static str, Dialect)],
}

/// A provider's own server: its address and required headers.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only clients ask for it"))]
pub(crate) struct Server {
    /// The base URL.
    pub(crate) base: &'static str,
    /// The environment variable of another base URL.
    pub(crate) base_variable: &'static str,
    /// The environment variable of the key.
    pub(crate) key_variable: &'static str,
    /// The header of the key, and the prefix of its value.
    pub(crate) key_header: (&'static str, &'static str),
    /// Headers of every request.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Whether the key is optional.
    pub(crate) is_open: bool,
    /// The default port of a bare host.
    pub(crate) port: Option<u16>,
    /// A required parameter, and its value if the caller does not set one.
    pub(crate) demanded: Option<(&'static str, u64)>,
}

/// Methods of a dialect that its adapter implements.
pub(crate) trait DialectAdapter: Copy {
    /// The one list of providers.
    fn profile(self) -> &'static Profile;

    fn adapter(self) -> &'static dyn Adapter {
        self.profile().adapter
    }

    /// Returns the form that messages of this dialect come in.
    fn form(self) -> &'static str {
        self.profile().form
    }

    /// Returns whether a form is one of this dialect's.
    fn owns(self, form: Option<&str>) -> bool {
        let profile = self.profile();
        form.is_some_and(|form| form == profile.form || profile.system_form == Some(form))
    }

    /// Returns what the dialect asks of calls and results.
    fn rules(self) -> Rules {
        let profile = self.profile();
        let forms = [Some(profile.form), profile.system_form];
        (profile.rules)(Rules::new(forms.into_iter().flatten()))
    }
}

impl DialectAdapter for Dialect {
    fn profile(self) -> &'static Profile {
        match self {
            Self::OpenAi => &crate::openai::PROFILE,
            Self::Responses => &crate::responses::PROFILE,
            Self::Anthropic => &crate::anthropic::PROFILE,
            Self::Ollama => &crate::ollama::PROFILE,
            Self::Gemini => &crate::gemini::PROFILE,
        }
    }
}
