/* foreign_words.c - what options and keys of other training programs are called here. */
#include "trainer/engine/config/foreign_words.h"
#include <ctype.h>
#include <string.h>

#define LAUNCHER   "mpirun -n RANKS convoy train CONFIG"
#define CONNECTED  "MPI or Slurm connects the ranks"
#define ALWAYS     "not needed"
#define PER_RANK   "images per rank; for all ranks: train.batch_mode=global train.global_batch=N"
#define SAME_AGAIN "the default, auto, continues a run when the same command is repeated"

const ForeignWord foreign_words[] = {
    { "model arch a backbone network", "model.name=NAME",
      "convoy inspect model --help lists them" },
    { "num_classes nb_classes", "model.classes=N", "by default the number of class folders" },
    { "in_chans", "model.in_channels=N", NULL },
    { "pretrained weights pretrained_path initial_checkpoint finetune finetune_from_model",
      "model.init=FILE",
      "a .safetensors or .pth file, or a run; convoy inspect model NAME names files" },
    { "drop drop_rate", "model.dropout=RATE", NULL },
    { "drop_path drop_path_rate drop_connect", "model.stochastic_depth=RATE", NULL },
    { "sync_bn sync_batchnorm sync_batch_norm", "model.bn=sync", NULL },
    { "freeze_layers freeze_backbone", "model.freeze=STAGE", NULL },

    { "data dataset data_dir data_path data_root root", "data.dir=DIR",
      "a folder with train and val in it; else data.train=DIR and data.val=DIR" },
    { "train_dir traindir train_data train_split", "data.train=DIR", NULL },
    { "val_dir valdir val_data valid_dir test_dir", "data.val=DIR", NULL },
    { "workers num_workers j data_workers cpu_workers", "data.threads=N",
      "threads that decode for one rank; 0 shares out the cores" },
    { "img_size image_sz input_size crop_size val_crop_size resolution res imgsz",
      "data.image_size=N", NULL },
    { "train_crop_size", "data.train_size=N", "data.image_size is the size of evaluation" },
    { "crop_pct val_resize_size resize_size", "data.eval_resize=N",
      "pixels: data.image_size divided by timm's crop_pct" },
    { "aa autoaugment", "data.auto_augment=randaugment_timm",
      "rand-m9-mstd0.5-inc1; others: randaugment, autoaugment, trivialaugment, augmix" },
    { "ra_magnitude", "data.randaugment_magnitude=N", NULL },
    { "reprob random_erasing", "data.random_erase=PROBABILITY", NULL },
    { "remode", "data.erase_mode=pixel", NULL },
    { "mixup_alpha", "data.mixup=ALPHA", NULL },
    { "cutmix_alpha", "data.cutmix=ALPHA", NULL },
    { "smoothing", "train.label_smoothing=SHARE", NULL },
    { "scale", "data.min_crop_area=SHARE", "the largest share is always 1" },
    { "no_aug", "data.augment=none", NULL },
    { "hflip flip horizontal_flip random_flip", "data.augment=imagenet",
      "imagenet, cifar and airbench include flips" },
    { "aug_repeats ra_reps ra_sampler", "data.repeated_augmentation=N", NULL },
    { "cache_dataset", "data.index=auto", "the default: the list of files is kept" },
    { "use_cache cache_images", "data.cache=ram", NULL },
    { "balanced_sampler weighted_sampler", "data.order=balanced", NULL },

    { "tokens_per_sample max_seq_length max_position_embeddings", "data.tokens=N",
      "with <s> and </s>" },
    { "sample_break_mode", "data.break_mode=MODE", NULL },
    { "mask_prob mlm_probability", "data.mask=SHARE", NULL },
    { "leave_unmasked_prob", "data.mask_keep=SHARE", NULL },
    { "random_token_prob", "data.mask_random=SHARE", NULL },

    { "b batch_size bs batch train_batch_size per_device_train_batch_size max_sentences "
      "micro_batch_size",
      "train.batch_per_rank=N", PER_RANK },
    { "total_batch_size effective_batch_size", "train.global_batch=N",
      "with train.batch_mode=global" },
    { "vb validation_batch_size val_batch_size eval_batch_size", "train.batch_per_rank=N",
      "evaluation uses the batch of training" },
    { "max_epochs max_epoch num_epochs n_epochs num_train_epochs", "train.epochs=N", NULL },
    { "max_update max_updates iterations fast_dev_run limit_train_batches steps",
      "train.max_steps=N", NULL },
    { "update_freq grad_accum_steps accumulate_grad_batches gradient_accumulation_steps "
      "batches_per_allreduce backward_passes_per_step",
      "train.accumulate=N", NULL },
    { "grad_checkpointing gradient_checkpointing activation_checkpointing checkpoint_activations",
      "train.recompute=blocks", "or norms, which is faster and saves less" },
    { "amp amp_dtype fp16 bf16 half mixed_precision use_amp model_dtype", "train.precision=bf16",
      "or fp16; auto takes what the device has" },
    { "fp16_init_scale", "train.loss_scale=SCALE", NULL },
    { "bce_loss criterion", "train.loss=bce", "the default is cross_entropy" },
    { "bce_target_thresh", "train.bce_threshold=P", NULL },
    { "random_seed manual_seed seed_everything", "train.seed=N", NULL },
    { "check_val_every_n_epoch eval_interval validate_interval val_interval eval_freq",
      "train.eval_every=EPOCHS", NULL },
    { "early_stopping early_stop patience_epochs", "train.patience=EVALUATIONS", NULL },
    { "class_weight", "train.class_weights=auto", NULL },
    { "kd_model_name teacher teacher_model teacher_path", "train.teacher=FILE",
      "a checkpoint, a run folder, or with train.teacher_model=NAME a .safetensors or .pth file" },
    { "kd_temperature distillation_tau temperature", "train.distill_temperature=T", NULL },
    { "distill_loss_weight distillation_alpha", "train.distill_weight=SHARE",
      "timm's --task-loss-weight is the rest" },

    { "opt optimizer optim solver", "optimizer.name=NAME",
      "sgd, adam, adamw, lars, lamb, rmsprop_tf, lion, muon" },
    { "lr learning_rate base_lr lr_base blr lr_per_sample", "optimizer.lr=RATE",
      "multiplied by global batch / 256 unless optimizer.lr_scaling=none" },
    { "wd decay l2", "optimizer.weight_decay=RATE", NULL },
    { "norm_weight_decay", "optimizer.decay_skip=torchvision", "norms do not decay" },
    { "bias_weight_decay no_weight_decay no_bias_decay", "optimizer.decay_skip=timm",
      "biases and norms do not decay" },
    { "opt_betas adam_betas beta1 beta2", "optimizer.betas=B1,B2", NULL },
    { "opt_eps adam_eps", "optimizer.eps=EPS", NULL },
    { "clip_grad clip_grad_norm gradient_clip_val max_grad_norm grad_clip",
      "optimizer.clip_norm=NORM", NULL },

    { "sched scheduler schedule lr_scheduler lr_policy lr_schedule", "schedule.name=cosine",
      "step, poly, constant, exponential, triangular" },
    { "warmup lr_warmup_epochs", "schedule.warmup_epochs=N", NULL },
    { "warmup_updates num_warmup_steps", "schedule.warmup_steps=N", NULL },
    { "lr_warmup_decay warmup_init_lr warmup_lr_init", "schedule.warmup_lr=RATE",
      "a rate, not a factor" },
    { "lr_min end_learning_rate eta_min", "schedule.min_lr=RATE", NULL },
    { "total_num_update", "schedule.decay_steps=N", NULL },
    { "decay_milestones lr_steps lr_step_size step_size decay_epochs", "schedule.milestones=EPOCHS",
      "all of them, such as 30,60,90; with schedule.name=step" },
    { "decay_rate lr_gamma", "schedule.gamma=FACTOR", NULL },

    { "model_ema_decay model_ema use_ema ema", "ema.decay=DECAY",
      "torchvision's numbers need ema.rule=torchvision" },
    { "model_ema_steps", "ema.every=STEPS", NULL },
    { "model_ema_warmup", "ema.warmup=true", NULL },

    { "bucket_cap_mb fusion_threshold_mb bucket_size", "comm.bucket_mb=MB", NULL },
    { "fp16_allreduce compression grad_compression", "comm.grad_dtype=bf16", NULL },

    { "output output_dir out_dir save_dir default_root_dir work_dir log_dir logdir experiment "
      "checkpoint_dir",
      "run.dir=DIR", "everything of a run is kept there" },
    { "resume ckpt_path restore_file resume_from_checkpoint auto_resume start_epoch",
      "checkpoint.resume=FILE", SAME_AGAIN },
    { "save_interval save_freq", "checkpoint.every_epochs=N", NULL },
    { "save_interval_updates recovery_interval save_steps", "checkpoint.every_steps=N", NULL },
    { "checkpoint_hist save_top_k keep_last_epochs save_total_limit", "checkpoint.keep=N",
      "and the best one is kept" },
    { "log_interval print_freq log_every_n_steps log_freq logging_steps", "log.every=STEPS", NULL },
    { "log_format", "log.format=json", NULL },
    { "profile profiler timeline_filename", "log.trace_steps=FROM-TO", NULL },
    { "tensorboard_logdir tb log_wandb wandb logger", "monitor.tensorboard=true", NULL },

    { "device accelerator gpu cuda no_cuda use_cuda", "device.backend=cuda",
      "or cpu; auto, the default, takes a GPU if there is one" },
    { "channels_last pin_mem pin_memory deterministic use_deterministic_algorithms "
      "torchcompile compile benchmark cudnn_benchmark find_unused_parameters",
      NULL, ALWAYS },

    { "np nproc_per_node nproc devices gpus world_size num_proc num_processes ngpus "
      "distributed_world_size nnodes num_nodes strategy distributed ddp",
      LAUNCHER, "on Slurm: srun --mpi=pmix; one rank per GPU" },
    { "master_addr master_port dist_url rdzv_backend rdzv_endpoint rdzv_id node_rank local_rank "
      "rank dist_backend standalone distributed_port ddp_backend",
      NULL, CONNECTED },
    { "hostfile host_discovery_script min_np max_np max_restarts",
      "convoy launch --hosts-script CMD -- train CONFIG", NULL },
    { "test_only evaluate validate_only eval_only validate test", "convoy eval RUN", NULL },
    { "list_models models list", "convoy inspect model --help", NULL },
    { "auto_lr_find lr_find", "convoy find-lr CONFIG", NULL },
    { "version", "convoy --version", NULL },
    { "fit finetune_model pretrain", "convoy train CONFIG", NULL },
    { "infer inference classify", "convoy predict RUN IMAGE", NULL },
    { "status watch", "convoy top RUN", NULL },
    { "visualize show_images", "convoy preview CONFIG --out FILE", NULL },
    { "check selftest diagnose", "convoy doctor", NULL },
};
const int foreign_word_count = sizeof foreign_words / sizeof foreign_words[0];

static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

void foreign_word_describe(const ForeignWord *row, StrBuf *out)
{
    if (row->use)
        str_printf(out, "use %s%s%s%s", row->use, row->note ? " (" : "", row->note ? row->note : "",
                   row->note ? ")" : "");
    else str_printf(out, "leave it out (%s)", row->note);
}

bool foreign_word_is(const char *words, const char *word)
{
    char plain[64];
    size_t n = 0;
    const char *dot = strrchr(word, '.');
    for (word = dot ? dot + 1 : word + strspn(word, "-"); *word && n < sizeof plain - 1; word++)
        plain[n++] = *word == '-' ? '_' : (char)tolower((unsigned char)*word);
    plain[n] = '\0';
    return n > 0 && has_word(words, plain);
}

const ForeignWord *foreign_word_find(const char *word)
{
    for (int i = 0; i < foreign_word_count; i++)
        if (foreign_word_is(foreign_words[i].words, word)) return &foreign_words[i];
    return NULL;
}
