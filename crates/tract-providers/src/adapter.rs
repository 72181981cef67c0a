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

/// Members of a request's body in their order: name and text.
pub(crate) type Members = Vec<(String, String)>;

/// The provider-specific steps of reading and writing requests.
pub(crate) trait Adapter: Sync {
    /// Writes the list of tools.
    fn tools(&self, tools: &[String]) -> String {
        raw::array(tools)
    }

    /// Corrects parameters that depend on the model, once it is known.
    fn settle(&self, _params: &mut Params) {}

    /// Whether the members of a request are this provider's and no other's.
    fn recognizes(&self, _request: &Fields<'_>) -> bool {
        false
    }

    /// Reads the instructions that a request keeps apart from its messages.
    fn instructions(&self, _request: &Fields<'_>) -> Result<Option<Draft>, ImportError> {
        Ok(None)
    }

    /// Reads the part of a request before its messages. Returns whether it has read the messages
    /// too, or they may be absent.
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

    /// Makes what reads the messages of one request.
    fn reader<'a>(&self) -> Box<dyn Reader<'a> + Send + 'a>;

    /// Takes the tools of a request's list apart: an element may hold several.
    fn tools_of<'a>(&self, element: Node<'a>) -> Result<Vec<Node<'a>>, ImportError> {
        Ok(vec![element])
    }
}

/// Reads the messages of one request, one after the other.
pub(crate) trait Reader<'a> {
    /// Reads the next message into drafts.
    fn message(&mut self, message: &Node<'a>, watch: &mut Watch) -> Result<(), ImportError>;

    /// Makes a draft of the parts that were held back until the end.
    fn end(&mut self) -> Option<Draft> {
        None
    }
}

/// The properties of a provider that all its requests share.
pub(crate) struct Profile {
    pub(crate) adapter: &'static dyn Adapter,
    /// The name, for people.
    pub(crate) title: &'static str,
    /// The word of the form that is a whole request.
    pub(crate) params: &'static str,
    /// Whether the conversation alone is a form, too.
    pub(crate) has_conversation: bool,
    /// The form that messages come in: dialect and revision. The revision changes when lowering
    /// does, so that what is stored stays right.
    pub(crate) form: &'static str,
    /// The form of instructions that are kept apart from the messages.
    pub(crate) system_form: Option<&'static str>,
    /// The name under which parts that only this provider knows are kept.
    pub(crate) opaque: &'static str,
    /// The member that holds the messages.
    pub(crate) list: &'static str,
    /// The member that holds the instructions, where they are kept apart.
    pub(crate) system: Option<&'static str>,
    /// Whether the body names the model; else the url does.
    pub(crate) names_model: bool,
    /// The limit of tokens: a member, or a member of a member.
    pub(crate) limit: &'static [&'static str],
    /// The members of a request, as far as they are known.
    pub(crate) parameters: &'static [&'static str],
    /// The members of the member in which sampling parameters are, where there is one.
    pub(crate) options: &'static [&'static str],
    /// Adds what the provider asks of calls and results.
    pub(crate) rules: fn(Rules) -> Rules,
    /// Writes the members that hold the conversation.
    pub(crate) conversation: fn(&mut RequestWriter<'_>) -> Members,
    /// Sets a parameter that the provider has under another name or in another shape than Chat
    /// Completions. Returns whether it is dealt with.
    pub(crate) set: fn(&mut Params, &str, &str) -> bool,
    /// The path of a request behind the base url, with its query, and the body as it goes out:
    /// whether it asks for a stream, and that to say how many tokens it took.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "the client alone sends"))]
    pub(crate) wire: fn(Params, streaming: bool, counts: bool) -> (String, Params),
    /// Reads an answer that was received whole. If a place is given, calls without ids get the ids
    /// of a message at that index.
    pub(crate) reply: fn(&Fields<'_>, place: Option<usize>) -> Result<Reply, ReplyError>,
    /// Makes what puts a streamed answer together.
    pub(crate) stream: fn() -> Box<dyn Accumulate>,
    /// Whether servers of other vendors have the same API, and accept members beyond it.
    pub(crate) is_shared: bool,
    /// The longest id of a call, in bytes; absent where calls need no ids.
    pub(crate) longest_id: Option<usize>,
    /// Whether a request with two tools of one name is refused.
    pub(crate) refuses_same_names: bool,
    /// Members of a message that belong to another dialect.
    pub(crate) foreign: Foreign,
    /// Whether a stream is a JSON object a line, rather than server-sent events.
    pub(crate) streams_lines: bool,
    /// The provider's own server.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only clients ask for it"))]
    pub(crate) server: Server,
}

impl Profile {
    /// Keeps a part that only this provider knows as it was received.
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
    /// Kinds of content, with the dialect that has them.
    pub(crate) blocks: &'static [(&'static str, Dialect)],
}

/// A provider's own server: its address and required headers.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only clients ask for it"))]
pub(crate) struct Server {
    /// The base url.
    pub(crate) base: &'static str,
    /// The variable of the environment that names another one.
    pub(crate) base_variable: &'static str,
    /// The variable that has the key.
    pub(crate) key_variable: &'static str,
    /// The header of the key, and the prefix of its value.
    pub(crate) key_header: (&'static str, &'static str),
    /// Headers of every request.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// Whether it answers without a key.
    pub(crate) is_open: bool,
    /// The port of a base url that is a host alone.
    pub(crate) port: Option<u16>,
    /// A required parameter, with the value that is sent if the caller sets none.
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
