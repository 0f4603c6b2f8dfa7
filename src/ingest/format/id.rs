//! The families of logs, by the word that names each on the command line and in a trace.

use crate::domain::word::word_enum;

word_enum! {
    /// A family of logs.
    pub enum Format {
        /// The `LiteLLM_SpendLogs` table.
        LitellmSpendlogs = "litellm-spendlogs",
        /// LiteLLM's logging payload, as in its S3 and GCS logs.
        LitellmStandardLogging = "litellm-standard-logging",
        /// The table `logs` of one-api.
        OneApiLogs = "one-api-logs",
        /// The table `logs` of new-api.
        NewApiLogs = "new-api-logs",
        /// Access logs of Envoy AI Gateway.
        EnvoyAiGateway = "envoy-ai-gateway",
        /// Logs of Kong's ai-proxy.
        KongAi = "kong-ai",
        /// Entries of APISIX's logger plugins.
        ApisixLogger = "apisix-logger",
        /// Access logs of APISIX with its AI fields.
        ApisixAccess = "apisix-access",
        /// Access logs of Higress with ai-statistics.
        HigressAiStatistics = "higress-ai-statistics",
        /// Log exports of Portkey.
        PortkeyExport = "portkey-export",
        /// Exports of Helicone.
        HeliconeExport = "helicone-export",
        /// Observations of Langfuse.
        LangfuseObservations = "langfuse-observations",
        /// Runs of LangSmith.
        LangsmithRuns = "langsmith-runs",
        /// OpenTelemetry spans as OTLP/JSON.
        OtlpSpans = "otlp-spans",
        /// Cloudflare AI Gateway.
        CloudflareLogpush = "cloudflare-logpush",
        /// Model invocation logs of AWS Bedrock.
        BedrockInvocation = "bedrock-invocation",
        /// Request logs of Azure OpenAI.
        AzureOpenaiRequestResponse = "azure-openai-requestresponse",
        /// LLM logs of Azure API Management.
        AzureApimLlm = "azure-apim-llm",
        /// Gateway logs of Azure API Management.
        AzureApimGatewaylogs = "azure-apim-gatewaylogs",
        /// Request-response logs of Vertex AI.
        VertexRequestResponse = "vertex-request-response",
        /// Activity of OpenRouter.
        OpenrouterActivity = "openrouter-activity",
        /// Outputs of the OpenAI Batch API.
        OpenaiBatchOutput = "openai-batch-output",
        /// Request traces of NVIDIA Dynamo.
        DynamoRequestTrace = "dynamo-request-trace",
        /// Request logs of SGLang.
        SglangRequests = "sglang-requests",
        /// The metrics exporter of SGLang.
        SglangRequestMetrics = "sglang-request-metrics",
        /// The router's log of text-generation-inference.
        TgiRouter = "tgi-router",
        /// Ollama's server log.
        OllamaGin = "ollama-gin",
        /// Captured final responses of Ollama.
        OllamaResponses = "ollama-responses",
        /// vLLM's request log.
        VllmText = "vllm-text",
        /// JSON access logs of nginx.
        NginxJson = "nginx-json",
        /// Access logs of ingress-nginx.
        NginxIngress = "nginx-ingress",
        /// Access logs in the combined format.
        NginxCombined = "nginx-combined",
        /// The public Azure LLM inference traces of 2023 and 2024.
        AzureLlmPublic = "azure-llm-public",
        /// The public Azure traces of 2025 with images.
        AzureLmmPublic = "azure-lmm-public",
        /// BurstGPT.
        Burstgpt = "burstgpt",
        /// The Qwen-Bailian traces.
        QwenBailian = "qwen-bailian",
        /// ShareGPT conversations.
        Sharegpt = "sharegpt",
        /// Traces of Vidur.
        Vidur = "vidur",
        /// Inputs of AIPerf with sessions.
        AiperfSessions = "aiperf-sessions",
        /// Custom datasets of vLLM's benchmark.
        VllmCustom = "vllm-custom",
        /// Traces of inference-perf.
        InferencePerfOtel = "inference-perf-otel",
        /// WEKA's agentic traces.
        WekaTrace = "weka-trace",
        /// The requests of a run of this program.
        TracewrightRun = "tracewright-run",
        /// `timestamp`, `input_length`, `output_length`, as of Mooncake and GuideLLM.
        LengthTrace = "length-trace",
        /// Captured requests and responses of whatever shape.
        RawCapture = "raw-capture",
        /// Any CSV or JSONL with `--map`.
        Generic = "generic",
    }
}

impl Format {
    /// Returns the names of all formats.
    pub fn names() -> Vec<&'static str> {
        Self::ALL.iter().map(|format| format.as_str()).collect()
    }
}
