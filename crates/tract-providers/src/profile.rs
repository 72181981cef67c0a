//! The properties of a provider. Each provider has a [`Profile`], in a folder with the same files for
//! all; the list of all profiles is in `lib.rs`.

use tract_compile::Rules;
use tract_core::{Draft, Reply};
use tract_schema::Dialect;

use crate::api::Api;
use crate::drafts::Watch;
use crate::error::{ImportError, ReplyError};
use crate::format::MessageFormat;
use crate::params::{Members, Params};
use crate::raw::{self, Fields, Node};
use crate::reader::Reader;
use crate::sheet::RequestWriter;
use crate::stream::event::Accumulate;

/// The provider-specific steps of reading and writing requests.
pub(crate) trait Adapter: Sync {
    /// Writes the list of tools. `recorded` is the member `tools` of the recorded parameters.
    fn tools(&self, tools: &[String], _recorded: Option<&str>) -> String {
        raw::array(tools)
    }

    /// Returns whether the member `tools` of recorded parameters describes the order of the tools,
    /// and is not sent itself.
    fn is_tool_layout(&self, _tools: &str) -> bool {
        false
    }

    /// Returns whether the member `tools` of recorded parameters states that a tool of this name was
    /// recorded in the provider's shape, if the definition itself does not show that.
    fn names_tool(&self, _tools: &str, _name: &str) -> bool {
        false
    }

    /// Corrects parameters that depend on the model, once it is known.
    fn settle(&self, _params: &mut Params) {}

    /// Repairs parameters of a recorded request that the provider never accepts.
    fn repair_recorded(&self, _params: &mut Params) {}

    /// Returns whether the members of a request exist only in this dialect.
    fn recognizes(&self, _request: &Fields<'_>) -> bool {
        false
    }

    /// Returns the member of a message that shows that only this dialect has such messages.
    fn own_member(&self, _message: &Fields<'_>) -> Option<&'static str> {
        None
    }

    /// Reads the instructions that a request has apart from its messages.
    fn instructions(
        &self,
        _request: &Fields<'_>,
        _watch: &mut Watch,
    ) -> Result<Option<Draft>, ImportError> {
        Ok(None)
    }

    /// Reads the part of a request before its messages. Returns whether messages are not required:
    /// they were read too, or they are optional.
    fn begin(&self, request: &Fields<'_>, watch: &mut Watch) -> Result<bool, ImportError> {
        let instructions = self.instructions(request, watch)?;
        watch.drafts.extend(instructions);
        Ok(false)
    }

    /// Returns the members of a request that are neither messages nor tools, as an object.
    fn parameters(&self, profile: &Profile, request: &Fields<'_>) -> String {
        let own = [Some(profile.format.list), Some("tools"), profile.format.system];
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

/// The properties of a provider that all its requests share.
pub(crate) struct Profile {
    pub(crate) adapter: &'static dyn Adapter,
    /// The display name.
    pub(crate) title: &'static str,
    /// The name of the form that is a whole request.
    pub(crate) params: &'static str,
    /// Whether the conversation without parameters is a form, too.
    pub(crate) has_conversation: bool,
    /// The format of its messages.
    pub(crate) format: &'static MessageFormat,
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
    /// that index. Anomalies of the message are noted.
    pub(crate) reply: fn(&Fields<'_>, Option<usize>, &mut Watch) -> Result<Reply, ReplyError>,
    /// Makes an assembler for a streamed answer.
    pub(crate) stream: fn() -> Box<dyn Accumulate>,
    /// Whether servers of other vendors implement the API, and accept other members.
    pub(crate) is_shared: bool,
    /// Whether a request with two tools of the same name is rejected.
    pub(crate) refuses_same_names: bool,
    /// Members of a message that belong to another dialect.
    pub(crate) foreign: Foreign,
    /// Suffixes of request paths in files, by which the dialect is detected.
    pub(crate) file_paths: &'static [&'static str],
    /// The member with the request in the lines of a batch, if only this provider has it.
    pub(crate) batch_member: Option<&'static str>,
    /// The member with the tools of older requests.
    pub(crate) legacy_tools: Option<&'static str>,
    /// The last event of a stream, which a recorded list of the events lacks.
    pub(crate) end_event: &'static str,
    /// The shape of complete answers.
    pub(crate) answer: AnswerShape,
    /// Types of content blocks that only this provider has.
    pub(crate) block_types: &'static [&'static str],
    /// Prefix of the names of the provider's own models.
    pub(crate) own_models: Option<&'static str>,
    /// The HTTP API.
    pub(crate) api: Api,
    /// The headers and required parameters of requests.
    #[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only clients ask for it"))]
    pub(crate) server: Server,
}

impl Profile {
    /// Returns the provider's rules for calls and results.
    pub(crate) fn pairing_rules(&self) -> Rules {
        let forms = [Some(self.format.form), self.format.system_form];
        (self.rules)(Rules::new(forms.into_iter().flatten()))
    }
}

/// The members of a provider's complete answers.
pub(crate) struct AnswerShape {
    /// Members by which an object is recognized as an answer: those with the message, and those that
    /// an answer without a message has.
    pub(crate) members: &'static [&'static str],
    /// Paths of the members that a [`Reply`] contains, or that are the same in every answer of this
    /// shape. `[0]` is the first element of a list; a reply contains the others whole.
    pub(crate) read: &'static [&'static str],
    /// Whether answers repeat the parameters of their request.
    pub(crate) repeats_request: bool,
}

impl AnswerShape {
    /// Returns whether an object is an answer of this shape.
    pub(crate) fn fits(&self, fields: &Fields<'_>) -> bool {
        self.members.iter().any(|key| fields.has(key))
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

/// What a provider's server requires of every request.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "only clients ask for it"))]
pub(crate) struct Server {
    /// The header of the key, and the prefix of its value.
    pub(crate) key_header: (&'static str, &'static str),
    /// Headers of every request.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    /// A required parameter, and its value if the caller does not set one.
    pub(crate) demanded: Option<(&'static str, u64)>,
}
